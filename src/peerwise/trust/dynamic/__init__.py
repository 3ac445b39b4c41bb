"""The classical rules of dynamic selection, by the k nearest known rows of each row to answer."""

from peerwise.trust.dynamic.base import DynamicRule
from peerwise.trust.dynamic.diverse import DESKNN
from peerwise.trust.dynamic.meta import METADES
from peerwise.trust.dynamic.neighbourhood import DESP, KNOP, KNORAE, KNORAU
from peerwise.trust.dynamic.single import LCA, OLA

__all__ = ["DESKNN", "DESP", "KNOP", "KNORAE", "KNORAU", "LCA", "METADES", "OLA", "DynamicRule"]
