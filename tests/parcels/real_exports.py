"""Files that users and Peerwise itself really write: name -> (how the file is made, the task's inputs, its classes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn import discriminant_analysis, ensemble, linear_model, naive_bayes, neural_network, preprocessing, svm, tree
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from torch import nn

from peerwise.data.rows import Feature, Rows, Sequences
from peerwise.methods.private_forest import private_forest
from peerwise.models import ZOO, export, find_recipe, wrap
from peerwise.models.fitted import NetFitted
from peerwise.models.zoo import find_build

Shapes = Mapping[str, tuple[int, ...]]


class Export(NamedTuple):
    make: Callable[[], bytes]
    inputs: Shapes
    classes: int


TABLE = {"x": (13,)}
SERIES = {"static": (4,), "series": (12, 7)}
DEEP = ("resnet18", "resnet34", "mobilenet_v2", "vit", "alexnet")


@cache
def wine() -> Rows:
    X, y = load_wine(return_X_y=True)
    X = X.astype(np.float32)
    X[:, 4] = np.digitize(X[:, 4], np.quantile(X[:, 4], [0.3, 0.6]))
    X[::7, 3] = X[::9, 4] = np.nan
    return Rows(X, y.astype(np.int64))


FEATURES = tuple(Feature(f"f{i}", ("low", "mid", "high") if i == 4 else ()) for i in range(13))


def _table(name: str, keep: int = 3) -> bytes:
    rows = wine().take(np.flatnonzero(wine().y < keep))
    return find_recipe(name).fit(rows, None, classes=3, features=FEATURES, seed=0, max_epochs=1).to_onnx()


def _untrained(name: str, X: Any, classes: int) -> bytes:
    torch.manual_seed(0)
    return NetFitted(find_build(name)(X, (), classes), X, None).to_onnx()


def _open_set() -> bytes:
    torch.manual_seed(0)
    net = find_build("mlp")(wine().X, (), 4)
    return export(wrap(net, classes=["low", "mid", "high", "unknown"]), wine().X)


def pixels(channels: int, size: int) -> Any:
    return np.zeros((1, channels, size, size), np.uint8)


def series(rows: int = 5) -> Sequences:
    chance = np.random.default_rng(0)
    return Sequences(
        chance.normal(size=(rows, 4)).astype(np.float32), chance.normal(size=(rows, 12, 7)).astype(np.float32)
    )


def _zoo() -> dict[str, Export]:
    made: dict[str, Export] = {}
    for name, recipe in ZOO.items():
        if recipe.kind == "table":
            made[f"zoo {name}"] = Export(partial(_table, name), TABLE, 3)
        elif recipe.kind == "image":
            for channels, size in ((3, 32),) if name in DEEP else ((1, 28), (3, 32)):
                make = partial(_untrained, name, pixels(channels, size), 10)
                made[f"zoo {name} {size}"] = Export(make, {"x": (channels, size, size)}, 10)
        else:
            made[f"zoo {name}"] = Export(partial(_untrained, name, series(), 2), SERIES, 2)
    made["zoo forest, one class"] = Export(partial(_table, "forest", 1), TABLE, 3)
    made["zoo boosting, two of three classes"] = Export(partial(_table, "boosting", 2), TABLE, 3)
    made["private forest"] = Export(_private_forest, TABLE, 3)
    made["zoo mlp, and unknown"] = Export(_open_set, TABLE, 3)
    return made


def _private_forest() -> bytes:
    chance = [np.random.default_rng(seed) for seed in (0, 1)]
    named = tuple(Feature(f"f{i}") for i in range(13))
    ranges = {feature.name: [0.0, 20.0] for feature in named}
    rows = Rows(np.nan_to_num(wine().X), wine().y)
    return private_forest(rows, named, ranges, classes=3, epsilon=4.0, rng=chance[0], noise=chance[1])


def _sklearn(model: Any) -> bytes:
    X = np.nan_to_num(wine().X)
    return export(model().fit(X, wine().y), X, features=[f"f{i}" for i in range(13)])


def _by_columns() -> Any:
    return make_pipeline(
        ColumnTransformer(
            [
                ("numbers", make_pipeline(SimpleImputer(strategy="median"), preprocessing.StandardScaler()), [0, 1, 2]),
                ("codes", preprocessing.OneHotEncoder(handle_unknown="ignore"), [4]),
            ]
        ),
        linear_model.LogisticRegression(max_iter=2000),
    )


def _xgboost(**settings: Any) -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=15, n_jobs=1, **settings)


def _lightgbm(**settings: Any) -> Any:
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1, **settings)


def _voting() -> Any:
    parts = [("a", linear_model.LogisticRegression(max_iter=2000)), ("b", naive_bayes.GaussianNB())]
    return ensemble.VotingClassifier(parts, voting="soft", flatten_transform=False)


def _stacking() -> Any:
    parts = [("a", naive_bayes.GaussianNB()), ("b", tree.DecisionTreeClassifier(max_depth=3, random_state=0))]
    return ensemble.StackingClassifier(parts, linear_model.LogisticRegression(), cv=3)


SKLEARN: dict[str, Callable[[], Any]] = {
    "imputer, scaler, logistic": lambda: make_pipeline(
        SimpleImputer(strategy="median"), preprocessing.StandardScaler(), linear_model.LogisticRegression()
    ),
    "columns and one-hot": _by_columns,
    "min-max, clipped": lambda: make_pipeline(
        preprocessing.MinMaxScaler((-1, 1), clip=True), linear_model.LogisticRegression()
    ),
    "robust scaler": lambda: make_pipeline(preprocessing.RobustScaler(), linear_model.LogisticRegression()),
    "max-abs scaler": lambda: make_pipeline(preprocessing.MaxAbsScaler(), linear_model.LogisticRegression()),
    "normaliser": lambda: make_pipeline(preprocessing.Normalizer(), linear_model.LogisticRegression()),
    "polynomials": lambda: make_pipeline(
        preprocessing.StandardScaler(), preprocessing.PolynomialFeatures(2), linear_model.LogisticRegression()
    ),
    "components": lambda: make_pipeline(PCA(4), linear_model.LogisticRegression(max_iter=2000)),
    "some columns": lambda: make_pipeline(SelectKBest(k=5), naive_bayes.GaussianNB()),
    "naive bayes": naive_bayes.GaussianNB,
    "bernoulli bayes": naive_bayes.BernoulliNB,
    "multinomial bayes": lambda: make_pipeline(preprocessing.MinMaxScaler(), naive_bayes.MultinomialNB()),
    "polynomials of trees": lambda: make_pipeline(
        preprocessing.PolynomialFeatures(2, interaction_only=True),
        tree.DecisionTreeClassifier(max_depth=4, random_state=0),
    ),
    "discriminant": discriminant_analysis.LinearDiscriminantAnalysis,
    "quadratic discriminant": discriminant_analysis.QuadraticDiscriminantAnalysis,
    "one against the rest": lambda: OneVsRestClassifier(linear_model.LogisticRegression(max_iter=2000)),
    "perceptron": lambda: make_pipeline(
        preprocessing.StandardScaler(), neural_network.MLPClassifier((16,), max_iter=20, random_state=0)
    ),
    "calibrated": lambda: make_pipeline(
        preprocessing.StandardScaler(), CalibratedClassifierCV(svm.LinearSVC(random_state=0))
    ),
    "stochastic gradient": lambda: make_pipeline(
        preprocessing.StandardScaler(), linear_model.SGDClassifier(loss="log_loss", random_state=0)
    ),
    "tree": lambda: tree.DecisionTreeClassifier(random_state=0),
    "forest": lambda: ensemble.RandomForestClassifier(20, random_state=0),
    "extra trees": lambda: ensemble.ExtraTreesClassifier(20, random_state=0),
    "boosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0),
    "histogram boosting": lambda: ensemble.HistGradientBoostingClassifier(max_iter=10),
    "ada boost": lambda: ensemble.AdaBoostClassifier(n_estimators=5, random_state=0),
    "bagging": lambda: ensemble.BaggingClassifier(naive_bayes.GaussianNB(), n_estimators=4, random_state=0),
    "voting": _voting,
    "stacked": _stacking,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "imputer, xgboost": lambda: make_pipeline(SimpleImputer(), _xgboost(max_depth=3)),
    "lightgbm, deep": lambda: _lightgbm(num_leaves=60, min_child_samples=2),
}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Linear(7, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(20, 2)

    def forward(self, static: torch.Tensor, series: torch.Tensor) -> torch.Tensor:
        said: torch.Tensor = self.head(torch.cat([self.layers(self.narrow(series)).mean(1), static], dim=1))
        return said


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.steps, self.head = kind(7, 12, num_layers=2, batch_first=True, bidirectional=True), nn.Linear(28, 2)

    def forward(self, static: torch.Tensor, series: torch.Tensor) -> torch.Tensor:
        said: torch.Tensor = self.head(torch.cat([self.steps(series)[0][:, -1], static], dim=1))
        return said


TABLE_NETS: dict[str, Callable[[], nn.Module]] = {
    "batch norm": lambda: nn.Sequential(nn.Linear(13, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)),
    "layer norm, gelu": lambda: nn.Sequential(nn.Linear(13, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)),
    "other activations": lambda: nn.Sequential(
        *(nn.Linear(13, 8), nn.SiLU(), nn.Linear(8, 8), nn.ELU(), nn.Linear(8, 8), nn.LeakyReLU(), nn.Linear(8, 8)),
        *(nn.Hardswish(), nn.Linear(8, 8), nn.Softplus(), nn.PReLU(), nn.SELU(), nn.Linear(8, 3), nn.LogSoftmax(1)),
    ),
}
IMAGE_NETS: dict[str, Callable[[], nn.Module]] = {
    "group norm": lambda: nn.Sequential(
        *(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GroupNorm(4, 8), nn.Mish(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(8, 10)),
    ),
    "reflected edges, ceil": lambda: nn.Sequential(
        *(nn.ReflectionPad2d(2), nn.Conv2d(1, 4, 3, dilation=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU6()),
        *(nn.InstanceNorm2d(4, affine=True), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 10)),
    ),
}


def _torch(make: Callable[[], nn.Module], X: Any, classes: int) -> bytes:
    torch.manual_seed(0)
    return export(wrap(make().eval(), classes=range(classes)), X)


def _users() -> dict[str, Export]:
    made = {f"sklearn {name}": Export(partial(_sklearn, model), TABLE, 3) for name, model in SKLEARN.items()}
    X = np.nan_to_num(wine().X[:4])
    made |= {f"torch {name}": Export(partial(_torch, net, X, 3), TABLE, 3) for name, net in TABLE_NETS.items()}
    grey = pixels(1, 28).astype(np.float32)
    made |= {
        f"torch {name}": Export(partial(_torch, net, grey, 10), {"x": (1, 28, 28)}, 10)
        for name, net in IMAGE_NETS.items()
    }
    sequence_nets: dict[str, Callable[[], nn.Module]] = {
        "transformer": Attention,
        "two-way lstm": partial(Recurrent, nn.LSTM),
        "two-way gru": partial(Recurrent, nn.GRU),
    }
    made |= {
        f"torch {name}": Export(partial(_torch, net, series(), 2), SERIES, 2) for name, net in sequence_nets.items()
    }
    return made


EXPORTS = {**_zoo(), **_users()}
BIG = tuple(name for name in EXPORTS if any(f"zoo {deep} " in name for deep in DEEP))
