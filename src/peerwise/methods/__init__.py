"""What a site does in a federation, one file a method."""

from peerwise.methods.base import Inbox, Memory, Method
from peerwise.methods.centralised import Centralised
from peerwise.methods.global_ensemble import GlobalEnsemble
from peerwise.methods.local import Local
from peerwise.methods.one_shot import OneShot
from peerwise.methods.registry import describe, make_method, method_class, method_names, method_parameters

__all__ = [
    "Centralised",
    "GlobalEnsemble",
    "Inbox",
    "Local",
    "Memory",
    "Method",
    "OneShot",
    "describe",
    "make_method",
    "method_class",
    "method_names",
    "method_parameters",
]
