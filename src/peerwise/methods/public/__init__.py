"""What methods on public rows have in common: packing, expertise, consensus, and privacy."""

from peerwise.methods.public.consensus import consensus, majority, qualified_majority
from peerwise.methods.public.expertise import HIGHEST, class_frequency, confidence
from peerwise.methods.public.packing import (
    dequantise,
    label_bits,
    pack_labels,
    pack_votes,
    quantise,
    unpack_labels,
    unpack_votes,
)

__all__ = [
    "HIGHEST",
    "class_frequency",
    "confidence",
    "consensus",
    "dequantise",
    "label_bits",
    "majority",
    "pack_labels",
    "pack_votes",
    "qualified_majority",
    "quantise",
    "unpack_labels",
    "unpack_votes",
]
