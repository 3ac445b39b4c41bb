"""What decides, before any runtime sees it, whether a peer's model file may be run."""

from peerwise.parcels.gate.gate import Gate, Shaper
from peerwise.parcels.gate.limits import GateLimits, ModelFacts
from peerwise.parcels.gate.models import AdmittedModels, admitted_models, checked_models

__all__ = ["AdmittedModels", "Gate", "GateLimits", "ModelFacts", "Shaper", "admitted_models", "checked_models"]
