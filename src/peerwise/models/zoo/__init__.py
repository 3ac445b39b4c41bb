"""The zoo: what a site can train by name."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from peerwise.data.rows import Kind
from peerwise.errors import ConfigError, ModelError, choices
from peerwise.models.recipe import Build, Fitted, Recipe

WITHOUT_EPOCHS = {
    "logistic": "logistic regression, L2, classes weighted",
    "forest": "random forest, 100 trees, leaves of 10 rows or more, classes weighted",
    "boosting": "histogram gradient boosting, 100 rounds, classes not weighted",
}
TABLES = {"mlp": "perceptron with 128 and 64 hidden units"}
IMAGES = {
    "small_cnn": "two 5x5 convolutions and 512 units: the small CNN of the FedDES experiments",
    "lenet": "LeNet-5 with ReLU and max-pooling",
    "lenet5": "LeNet-5 as published: tanh, average pooling",
    "cnn16": "two 3x3 convolutions of 16 and 32 filters and 128 units: light",
    "cnn8": "two 3x3 convolutions of 8 and 16 filters and 64 units: the lightest with convolutions",
    "mlp64": "64 hidden units on the pixels, no convolutions",
    "simple_cnn": "two 5x5 convolutions of 8 and 16 filters and 544 units: the size of FedSOV's simple CNN",
    "large_cnn": "four 3x3 convolutions and 512 units",
    "alexnet": "AlexNet at this size, 3x3 kernels",
    "vit": "vision transformer, 4x4 patches, 6 layers of width 128",
    "mobilenet_v2": "MobileNetV2 with a CIFAR stem",
    "resnet18": "ResNet-18 with a CIFAR stem",
    "resnet34": "ResNet-34 with a CIFAR stem",
}
SEQUENCES = {
    "tcn": "temporal convolutions, 2 levels of 32 filters",
    "cnn1d": "one convolution of 32 filters and 32 units",
    "lstm": "one LSTM layer of 64 units",
}


def find_recipe(name: str) -> Recipe:
    """The recipe of this name, or an error with the choices. Nothing but the zoo: the name may be a stranger's."""
    if name not in ZOO:
        raise ConfigError(choices(name, ZOO, "model"))
    return ZOO[name]


def find_build(name: str) -> Build:
    """How the net of this recipe is built; a recipe that is no net is refused."""
    recipe = find_recipe(name)
    if not recipe.by_epochs:
        nets = sorted(other for other, known in ZOO.items() if known.by_epochs and known.kind == recipe.kind)
        raise ModelError(f"model {name!r} is no neural network: expected one of {', '.join(nets)}.")
    build: Build = import_module(f"{__name__}.{recipe.kind}s").BUILDS[name]
    return build


def _fit(file: str, name: str, *rows: Any, **settings: Any) -> Fitted:
    """As the recipe's file does it, which is imported, and torch with it, when the first model is trained."""
    fitted: Fitted = import_module(f"{__name__}.{file}").FITS[name](*rows, **settings)
    return fitted


def _recipes(kind: Kind, file: str, described: dict[str, str], *, by_epochs: bool = True) -> dict[str, Recipe]:
    return {
        name: Recipe(name, kind, description, partial(_fit, file, name), by_epochs)
        for name, description in described.items()
    }


ZOO: dict[str, Recipe] = {
    **_recipes("table", "tables", WITHOUT_EPOCHS, by_epochs=False),
    **_recipes("table", "tables", TABLES),
    **_recipes("image", "images", IMAGES),
    **_recipes("sequence", "sequences", SEQUENCES),
}
