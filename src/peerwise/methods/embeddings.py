"""Where different backbones meet: embeddings of one width, the head on top of them, and their means by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from peerwise.errors import ConfigError, ParcelError
from peerwise.federation.method import Inbox
from peerwise.methods.averaging import Weights
from peerwise.models.nets import Net, in_parts, net_parameters
from peerwise.models.outputs import softmax
from peerwise.models.training import Batch
from peerwise.parcels import Parcel

Labels = NDArray[np.int64]
ClassMeans = tuple[NDArray[np.float32], Labels]
MOST_CLASSES = 1_000_000


def checked_width(embedding: int) -> int:
    if embedding < 1:
        raise ConfigError(f"embedding is {embedding}: expected the width of an embedding, at least 1.")
    return embedding


def head_parameters(net: Net) -> Weights:
    """The weights of the head, by their names in the whole net."""
    return {f"head.{name}": value for name, value in net_parameters(net.head).items()}


def class_means(net: Net, batch: Batch, classes: int) -> ClassMeans:
    """Mean embedding (present classes, width) of the rows of each class that is there, and the codes of these classes.

    A pass of its own after training, in evaluation mode, so that all rows are seen by the same net.
    """
    return means_by_class(in_parts(net, net.embed, batch[:-1]), batch[-1], classes)


def means_by_class(embedded: Tensor, y: Tensor, classes: int) -> ClassMeans:
    embedded = embedded.double()
    counts = torch.bincount(y, minlength=classes)
    sums = torch.zeros(classes, embedded.shape[1], dtype=torch.float64, device=y.device).index_add_(0, y, embedded)
    labels = torch.nonzero(counts).squeeze(1)
    means = sums[labels] / counts[labels].unsqueeze(1)
    return means.to(torch.float32).cpu().numpy(), labels.cpu().numpy()


@dataclass(frozen=True)
class SentMeans:
    """Every class mean that was sent, (n, width), and its class code."""

    means: NDArray[np.float32]
    labels: Labels

    def by_class(self) -> tuple[NDArray[np.float64], Labels]:
        """The plain mean over senders of each class, and the codes of the classes that somebody has."""
        labels, place, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        sums = np.zeros((len(labels), self.means.shape[1]))
        np.add.at(sums, place, self.means.astype(np.float64))
        return sums / counts[:, None], labels


def read_means(parcel: Parcel, width: int | None, classes: int | None = None) -> Parcel:
    """A site's class means of this width, and their codes below ``classes``; refused if they are anything else."""
    means, labels = np.asarray(parcel["means"]), np.asarray(parcel["labels"])
    if means.ndim != 2 or labels.shape != means.shape[:1] or not len(labels) or labels.dtype.kind not in "iu":
        raise ParcelError(f"means {means.shape} and labels {labels.shape}: expected one class code for each mean.")
    if means.shape[1] != width:
        raise ParcelError(f"class means of {means.shape[1]} numbers each: expected {width}.")
    if labels.min() < 0 or labels.max() > MOST_CLASSES or len(set(labels.tolist())) < len(labels):
        raise ParcelError(f"labels {labels.tolist()[:5]}: expected different class codes from 0.")
    if classes is not None and labels.max() >= classes:
        raise ParcelError(f"label {labels.max()}: expected class codes below {classes}.")
    return Parcel(means=means.astype(np.float32), labels=labels.astype(np.int64))


def sent_means(inbox: Inbox) -> SentMeans:
    """What all sites sent, one after the other."""
    parcels = [inbox[sender] for sender in sorted(inbox)]
    return SentMeans(
        np.concatenate([parcel["means"] for parcel in parcels]),
        np.concatenate([parcel["labels"] for parcel in parcels]),
    )


def nearest_probabilities(
    embedded: NDArray[np.floating[Any]], prototypes: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """softmax over classes of -||h - P_c||^2, for h (n, width) and P (classes, width); a class whose row is NaN is
    unknown and has probability zero."""
    known = ~np.isnan(prototypes).any(axis=1)
    places = prototypes[known].astype(np.float64)
    # ||h||^2 is the same for every class, so softmax does not see it.
    closeness = 2.0 * embedded.astype(np.float64) @ places.T - (places**2).sum(axis=1)
    found = np.zeros((len(embedded), len(prototypes)))
    found[:, known] = softmax(closeness)
    return found
