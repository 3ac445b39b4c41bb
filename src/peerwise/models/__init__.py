"""Models: wrap any classifier, train by recipe, predict out of fold, travel as ONNX."""

from peerwise.models.export import export
from peerwise.models.folds import OutOfFold, out_of_fold
from peerwise.models.member import Member
from peerwise.models.onnx_model import OnnxModel
from peerwise.models.recipe import Fitted, Recipe
from peerwise.models.threads import one_thread
from peerwise.models.training import Training, train
from peerwise.models.weights import load_weights, save_weights
from peerwise.models.wrap import wrap
from peerwise.models.zoo import ZOO, find_recipe

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
