"""What a site does in a federation, one file a method."""

from peerwise.methods.base import Inbox, Memory, Method
from peerwise.methods.centralised import Centralised
from peerwise.methods.global_ensemble import GlobalEnsemble
from peerwise.methods.local import Local
from peerwise.methods.one_shot import OneShot
from peerwise.methods.registry import (
    describe,
    first_sentence,
    make_method,
    method_class,
    method_names,
    method_parameters,
)
from peerwise.methods.settings import check_settings, check_value, hints_of

__all__ = [
    "Centralised",
    "GlobalEnsemble",
    "Inbox",
    "Local",
    "Memory",
    "Method",
    "OneShot",
    "check_settings",
    "check_value",
    "describe",
    "first_sentence",
    "hints_of",
    "make_method",
    "method_class",
    "method_names",
    "method_parameters",
]
