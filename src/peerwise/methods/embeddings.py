"""Where different backbones meet: embeddings of one width, the head on top of them, and their means by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.errors import ConfigError, ParcelError
from peerwise.methods.averaging import MOST_SAID, Weights, check_numbers
from peerwise.methods.base import Inbox
from peerwise.methods.pool_models import full_name
from peerwise.models.nets import Net, in_parts, net_parameters
from peerwise.models.outputs import softmax
from peerwise.models.training import Batch
from peerwise.parcels import Parcel

Labels = NDArray[np.int64]
MOST_CLASSES = 1_000_000


def checked_width(embedding: int) -> int:
    if embedding < 1:
        raise ConfigError(f"embedding is {embedding}: expected the width of an embedding, at least 1.")
    return embedding


def head_parameters(net: Net) -> Weights:
    """The weights of the head, by their names in the whole net."""
    return {f"head.{name}": value for name, value in net_parameters(net.head).items()}


def class_means(net: Net, batch: Batch, classes: int) -> tuple[NDArray[np.float32], Labels]:
    """Mean embedding (present classes, width) of the rows of each class that is there, and the codes of these classes.

    A pass of its own after training, in evaluation mode, so that all rows are seen by the same net.
    """
    embedded, y = in_parts(net, net.embed, batch[:-1]).double(), batch[-1]
    counts = torch.bincount(y, minlength=classes)
    sums = torch.zeros(classes, embedded.shape[1], dtype=torch.float64, device=y.device).index_add_(0, y, embedded)
    labels = torch.nonzero(counts).squeeze(1)
    means = sums[labels] / counts[labels].unsqueeze(1)
    return means.to(torch.float32).cpu().numpy(), labels.cpu().numpy()


@dataclass(frozen=True)
class SentMeans:
    """Every class mean that was sent, (n, width), its class code, and the senders left out with the reason."""

    means: NDArray[np.float32]
    labels: Labels
    left_out: dict[str, str]

    def by_class(self) -> tuple[NDArray[np.float64], Labels]:
        """The plain mean over senders of each class, and the codes of the classes that somebody has."""
        labels, place, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        sums = np.zeros((len(labels), self.means.shape[1]))
        np.add.at(sums, place, self.means.astype(np.float64))
        return sums / counts[:, None], labels


def sent_means(inbox: Inbox, width: int | None = None, classes: int | None = None) -> SentMeans:
    """What the sites sent, but for those who sent no finite means by class, or of another width (by default that of
    most senders), or of a class not below ``classes``."""
    sent: dict[str, tuple[NDArray[Any], Labels]] = {}
    left_out: dict[str, str] = {}
    for sender in sorted(inbox):
        try:
            sent[sender] = _checked(inbox[sender], classes)
        except Exception as error:  # whatever a peer may send
            left_out[full_name("*", sender)] = f"class means: {error}"[:MOST_SAID]
    widths = [means.shape[1] for means, _ in sent.values()]
    expected = width or max(widths, key=widths.count, default=None)
    for sender in [sender for sender in sent if sent[sender][0].shape[1] != expected]:
        why = f"class means: {sent.pop(sender)[0].shape[1]} numbers each, expected {expected}."
        left_out[full_name("*", sender)] = why
    if not sent:
        raise ParcelError(f"no class means to learn from: {'; '.join(left_out.values()) or 'nobody sent any'}.")
    means = np.concatenate([means for means, _ in sent.values()]).astype(np.float32)
    return SentMeans(means, np.concatenate([labels for _, labels in sent.values()]).astype(np.int64), left_out)


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


def _checked(parcel: Parcel, classes: int | None) -> tuple[NDArray[Any], Labels]:
    means, labels = np.asarray(parcel["means"]), np.asarray(parcel["labels"])
    if means.ndim != 2 or labels.shape != means.shape[:1] or not len(labels) or labels.dtype.kind not in "iu":
        raise ParcelError(f"means {means.shape} and labels {labels.shape}: expected one class code for each mean.")
    check_numbers(means, "an array of means")
    if labels.min() < 0 or labels.max() > MOST_CLASSES or len(set(labels.tolist())) < len(labels):
        raise ParcelError(f"labels {labels.tolist()[:5]}: expected different class codes from 0.")
    if classes is not None and labels.max() >= classes:
        raise ParcelError(f"label {labels.max()}: expected class codes below {classes}.")
    return means, labels
