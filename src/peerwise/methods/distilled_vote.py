"""DistilledVote: one small net that has learned from the open vote on public rows, instead of all the nets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peerwise.data import Inputs, Site, digest
from peerwise.errors import BadOutputs, ClassMismatch, ConfigError, DataError, ParcelError
from peerwise.federation.cleaning import PEERS_LEFT_OUT, full_name
from peerwise.federation.method import FELL_BACK, Inbox
from peerwise.methods.open_nets import Nets, OnOpenNets
from peerwise.methods.open_voting import built_net, own_probabilities
from peerwise.methods.pool_models import at_its_cost
from peerwise.models import find_recipe
from peerwise.models.fitted import tensors
from peerwise.models.nets import net_probabilities, net_weights, new_net
from peerwise.models.training import train
from peerwise.parcels import Parcel

TRIED = 256  # public rows on which a student must answer with finite numbers


class DistilledVote(OnOpenNets):
    """The open vote distilled to one student, the rival of pruning (FedOV's and FedSOV's papers).

    round 0: every site shares its open-set net;  round 1: the first site by name trains and shares the student
    loss(x) = - sum_c p(c | x) log student_c(x),  x: a public row, p: the vote of the ``top`` nets there

    The student is that site's kind of net without the extra output, trained ``student_epochs`` long; how many public
    rows there are and of which classes is the federation's (``public``, ``public_alpha``). All sites answer with it; a
    site that it has not reached answers with the vote of the nets it has, as do all where the student's answer is no
    number; without any net all classes are alike. A student that cannot be used is left out as a peer's net is. A site
    that could use no peer's net does not teach: its student would know no more than its own.

    Departs from the papers, where a server holds the public rows and the student.
    """

    rounds = 2
    keeps_last = True

    def __init__(
        self,
        nets: Nets = "fedsov",
        local_epochs: int = 10,
        batch_size: int = 16,
        lr: float = 1e-3,
        weight_decay: float = 1e-5,
        top: int = 3,
        student_epochs: int = 100,
    ) -> None:
        super().__init__(nets, local_epochs, batch_size, lr, weight_decay, top)
        if student_epochs < 1:
            raise ConfigError(f"student_epochs is {student_epochs}: expected at least 1.")
        self.student_epochs = student_epochs

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        for site in sites:
            if site.public is None or not len(site.public):
                raise DataError(
                    f"site {site.name!r} has no public rows: {self.called} teaches its student on rows without labels "
                    f"that belong to nobody. Set some aside, e.g. public=500 (--public 500)."
                )

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state[FELL_BACK] = {"to": "the vote", "why": "no student came"}

    def share(self, site: Site, round: int) -> Parcel:
        said = super().share(site, round) if "own" not in site.state else Parcel()
        peers = site.state.get("peers", {})
        all_refused = not peers and PEERS_LEFT_OUT in site.state
        if round == 0 or all_refused or site.name != min([site.name, *peers]):
            return said
        made = site.keep(self._student_key(site), lambda: self._student(site))
        site.state["seconds"]["train"] += made["seconds"]
        student = {"recipe": made["recipe"], "weights": made["weights"]}
        return Parcel(**said, student=student, **({} if said else {"classes": list(site.classes)}))

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        before, refused = site.state.get("peers", {}), site.state.get(PEERS_LEFT_OUT, {})
        super().absorb(site, round, {name: each for name, each in inbox.items() if each and not _student_alone(each)})
        site.state["peers"] = {**before, **site.state["peers"]}
        if refused:
            site.state[PEERS_LEFT_OUT] = {**refused, **site.state[PEERS_LEFT_OUT]}
        for sender in sorted(inbox):
            if "student" not in inbox[sender]:
                continue
            why: dict[str, str] = {}
            with at_its_cost(full_name("student", sender), why):
                site.state["student"] = _checked(inbox[sender], sender, site)
                site.state.pop(FELL_BACK, None)
                return
            site.state[PEERS_LEFT_OUT] = {**site.state.get(PEERS_LEFT_OUT, {}), **why}

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        if "student" not in site.state:
            return self._voted(site, X)
        student = built_net(site.state["student"], site, len(site.classes))
        found = net_probabilities(student, tensors(X, site.device))
        lost = ~np.isfinite(found).all(axis=1)
        if lost.any():
            found[lost] = self._voted(site, X[lost])
        return found

    def _voted(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        if self._has_nets(site):
            return super().predict_proba(site, X)
        return np.full((len(X), len(site.classes)), 1 / len(site.classes))

    def _has_nets(self, site: Site) -> bool:
        return "own" in site.state or bool(site.state.get("peers"))

    def predict_with_details(self, site: Site, X: Inputs) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Where the student answers, of the vote's details only the own net's answer."""
        if "student" not in site.state:
            return super().predict_with_details(site, X) if self._has_nets(site) else (self._voted(site, X), {})
        own = {"own": own_probabilities(site, X)} if "own" in site.state else {}
        return self.predict_proba(site, X), own

    def _student(self, site: Site) -> dict[str, Any]:
        started = time.perf_counter()
        recipe = self.recipe(site)
        public = _public(site)
        taught = torch.as_tensor(self.vote(site, public).probabilities, dtype=torch.float32).to(site.device)
        seed = site.seed_for("student")
        net = new_net(recipe, public, site.features, len(site.classes), seed=seed).to(site.device)
        rows = (*tensors(public, site.device), taught)
        train(net, rows, lr=self.lr, epochs=self.student_epochs, batch_size=self.batch_size, patience=None, seed=seed)
        return {"recipe": recipe, "weights": net_weights(net), "seconds": time.perf_counter() - started}

    def _student_key(self, site: Site) -> dict[str, Any]:
        public = _public(site)
        return {
            "what": "student of an open vote",
            "recipe": self.recipe(site),
            "settings": [self.lr, self.student_epochs, self.batch_size],
            "seed": site.seed_for("student"),
            "public": digest(public),
            "taught": digest(self.vote(site, public).probabilities),
        }


def _public(site: Site) -> Inputs:
    assert site.public is not None, "check_sites comes first"
    return site.public


def _student_alone(parcel: Parcel) -> bool:
    return "student" in parcel and "weights" not in parcel


def _checked(parcel: Parcel, sender: str, site: Site) -> dict[str, Any]:
    """The student in a parcel, if it can be built here and answers."""
    student = parcel["student"]
    if not isinstance(student, Mapping) or not {"recipe", "weights"} <= set(student) or "classes" not in parcel:
        raise ParcelError(f"site {sender!r} sent a student without recipe, weights or classes: expected all of them.")
    if list(parcel["classes"]) != list(site.classes):
        raise ClassMismatch(
            f"the student of site {sender!r} answers over {parcel['classes']}, this site over {list(site.classes)}: "
            f"expected the same classes in the same order."
        )
    if (kind := find_recipe(student["recipe"]).kind) != site.kind:
        raise ParcelError(f"site {sender!r} sent a student for {kind} rows: expected one for {site.kind} rows.")
    kept = {"recipe": student["recipe"], "weights": student["weights"]}
    rows = tensors(_public(site)[:TRIED], site.device)
    if not np.isfinite(net_probabilities(built_net(kept, site, len(site.classes)), rows)).all():
        raise BadOutputs(f"the student of site {sender!r} answers with non-finite values on public rows.")
    return kept
