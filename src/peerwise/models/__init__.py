"""Models: wrap any classifier, train by recipe, predict out of fold, travel as ONNX.

Torch is imported when a model first needs it: a process that only leads others, or lists models, does without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from peerwise.models.export import export
from peerwise.models.folds import OutOfFold, out_of_fold
from peerwise.models.member import Member
from peerwise.models.onnx_model import OnnxModel
from peerwise.models.recipe import Fitted, Recipe
from peerwise.models.threads import one_thread
from peerwise.models.wrap import wrap
from peerwise.models.zoo import ZOO, find_recipe

if TYPE_CHECKING:
    from peerwise.models.training import Training, train
    from peerwise.models.weights import load_weights, save_weights

WITH_TORCH = {"Training": "training", "train": "training", "load_weights": "weights", "save_weights": "weights"}

__all__ = [
    "ZOO",
    "Fitted",
    "Member",
    "OnnxModel",
    "OutOfFold",
    "Recipe",
    "Training",
    "export",
    "find_recipe",
    "load_weights",
    "one_thread",
    "out_of_fold",
    "save_weights",
    "train",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{WITH_TORCH[name]}"), name)
