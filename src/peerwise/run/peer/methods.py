"""The method that a site has settled on, and how it travels: as models that are published, or in rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peerwise.federation import combines
from peerwise.methods import Method, make_method, method_parameters
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.training import FOLDS


def method_of(peer: PeerFolder) -> Method:
    """As the site's settings have it; a method with a decision rule answers for the task's metric."""
    name, settings = peer.settings.method, dict(peer.settings.method_settings)
    if peer.task.metric == "balanced_accuracy" and "metric" in method_parameters(name):
        settings.setdefault("metric", peer.task.metric)
    return made_method(name, settings, len(peer.members))


def made_method(name: str, settings: Mapping[str, Any], sites: int) -> Method:
    return make_method(name, settings, folds=FOLDS, epochs=None, sites=sites)


def is_published(method: Method) -> bool:
    """Whether what it says first is all that others need: later rounds, if any, only add to it."""
    return not combines(method) and (method.rounds == 1 or method.keeps_last)
