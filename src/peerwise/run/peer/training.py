"""Train this site's own models, and say how well they do on its validation rows."""

from __future__ import annotations

from typing import Any

from peerwise.data import Site
from peerwise.methods.own_models import LEFT_OUT, OwnModels, mean_probabilities, own_models
from peerwise.metrics import scores
from peerwise.models import one_thread
from peerwise.run.peer.folder import PeerFolder

FOLDS = 5


def train(peer: PeerFolder) -> dict[str, Any]:
    """The models are kept by content: the same rows are never trained on twice, new rows give new models."""
    with peer.held():
        site = peer.site()
        own = trained(site)
        peer.ledger.add("trained", models=sorted(own.files), rows=len(site.train))
        found = {name: on_validation(site, {name: data}) for name, data in own.files.items()}
        return {
            "rows": {"train": len(site.train), "validation": len(site.val), "test": len(site.test)},
            "models": {name: {"bytes": len(own.files[name]), **of_validation} for name, of_validation in found.items()},
            "own": on_validation(site, own.files),
            "left_out": dict(site.state.get(LEFT_OUT, {})),
        }


def trained(site: Site) -> OwnModels:
    with one_thread():
        return own_models(site, folds=FOLDS)


def on_validation(site: Site, files: dict[str, bytes]) -> dict[str, Any]:
    """Accuracy and balanced accuracy of the models' mean; without validation rows nothing is known."""
    if not len(site.val):
        return {"accuracy": None, "balanced_accuracy": None}
    with one_thread():
        found = scores(site.val.y, mean_probabilities(site, files, site.val.X))
    return {name: found[name] for name in ("accuracy", "balanced_accuracy")}
