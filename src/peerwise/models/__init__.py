"""Models: wrap any classifier, train by recipe, predict out of fold, travel as ONNX.

Torch is imported when a model first needs it: a process that only leads others, or lists models, does without.
"""

from typing import TYPE_CHECKING

from peerwise.lazy import lazy
from peerwise.models.export import export
from peerwise.models.folds import OutOfFold, out_of_fold
from peerwise.models.member import Member
from peerwise.models.onnx_model import OnnxModel
from peerwise.models.own_recipe import own_recipe
from peerwise.models.recipe import Fitted, Recipe
from peerwise.models.threads import one_thread
from peerwise.models.wrap import wrap
from peerwise.models.zoo import ZOO, find_recipe

if TYPE_CHECKING:
    from peerwise.models.training import Training, train
    from peerwise.models.weights import load_weights, save_weights

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
    "own_recipe",
    "save_weights",
    "train",
    "wrap",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {"Training": "training", "train": "training", "load_weights": "weights", "save_weights": "weights"},
    )
