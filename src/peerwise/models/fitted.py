"""What recipes give back: a trained net, or a prepared sklearn classifier. Both export to the same form of file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.data.rows import Feature, Inputs, Rows, Sequences
from peerwise.errors import ModelError
from peerwise.models.onnx_graph import chain, finished, probabilities_to_logits, torch_graph
from peerwise.models.outputs import FLOOR, slices
from peerwise.models.recipe import Build, Fitted
from peerwise.models.sklearn_onnx import sklearn_graph
from peerwise.models.training import class_weights, cross_entropy, train

EPOCHS, BATCH, LEARNING_RATE, PATIENCE, WARMUP = 300, 32, 1e-3, 10, 2


def tensors(X: Inputs, device: str = "cpu") -> tuple[Tensor, ...]:
    """The inputs of a net: one tensor, or static and series. Pixels stay uint8, all else is float32."""
    parts: tuple[Any, ...] = (X.static, X.series) if isinstance(X, Sequences) else (np.asarray(X),)
    dtypes = [np.uint8 if part.dtype == np.uint8 else np.float32 for part in parts]
    # W: torch cannot hold a read-only array, such as a memory-mapped file
    arrays = [np.require(part, dtype, ["C", "W"]) for part, dtype in zip(parts, dtypes, strict=True)]
    return tuple(torch.from_numpy(array).to(device) for array in arrays)


class NetFitted(Fitted):
    """A trained torch net."""

    def __init__(self, net: nn.Module, example: Inputs, best_epoch: int | None, device: str = "cpu") -> None:
        self.net, self.best_epoch, self.device = net.eval(), best_epoch, device
        self._example = example

    def predict_logits(self, X: Any) -> NDArray[np.float32]:
        return net_logits(self.net, X, self.device)

    def to_onnx(self) -> bytes:
        names = ("static", "series") if isinstance(self._example, Sequences) else ("x",)
        return finished(torch_graph(self.net, tensors(self._example), names))


class SklearnFitted(Fitted):
    """A prepared table and a sklearn classifier of class codes."""

    def __init__(self, prepare: nn.Module, model: Any, example: Inputs, classes: int) -> None:
        self._prepare, self._model, self._classes = prepare.eval(), model, classes
        self._example = example

    def predict_logits(self, X: Any) -> NDArray[np.float32]:
        with torch.no_grad():
            prepared = self._prepare(*tensors(X)).numpy()
        everywhere = np.zeros((len(X), self._classes), dtype=np.float32)
        if len(X):
            everywhere[:, self._model.classes_] = self._model.predict_proba(prepared)
        return np.log(np.maximum(everywhere, np.float32(FLOOR)))

    def to_onnx(self) -> bytes:
        from skl2onnx.common.data_types import FloatTensorType

        first = torch_graph(self._prepare, tensors(self._example), ("x",), "prepared")
        width = int(self._model.n_features_in_)
        second = sklearn_graph(self._model, [("prepared", FloatTensorType([None, width]))])
        second = probabilities_to_logits(second, [int(code) for code in self._model.classes_], self._classes)
        return finished(chain(first, second, "prepared"))


def net_logits(net: nn.Module, X: Inputs, device: str) -> NDArray[np.float32]:
    net.eval()
    with torch.inference_mode():
        parts = [net(*tensors(X[part], device)).float().cpu().numpy() for part in slices(X)]
        return np.concatenate(parts) if parts else net(*tensors(X, device)).cpu().numpy()


def fit_net(
    build: Callable[[], nn.Module],
    train_rows: Rows,
    val_rows: Rows | None,
    *,
    classes: int,
    seed: int,
    device: str = "cpu",
    max_epochs: int | None = None,
    balanced: bool = False,
) -> NetFitted:
    """Build and train a net by the recipe every site uses.

    Adam 1e-3 with 2 epochs of warm-up, class-weighted cross entropy, batches of 32, at most 300 epochs or
    ``max_epochs``, stopped after 10 epochs without a better `stopping_score` on the validation rows. ``balanced``: by
    balanced accuracy, for tasks where one class is rare.
    """
    if not len(train_rows):
        raise ModelError("no training rows: expected at least one. Give this site rows or leave it out.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = build().to(device)
    labels = torch.as_tensor(train_rows.y, dtype=torch.int64).to(device)
    record = train(
        net,
        (*tensors(train_rows.X, device), labels),
        loss=cross_entropy(class_weights(train_rows.y, classes).to(device)),
        validate=stopping_score(net, val_rows, device, balanced) if val_rows is not None and len(val_rows) else None,
        lr=LEARNING_RATE,
        epochs=max_epochs or EPOCHS,
        batch_size=BATCH,
        patience=PATIENCE,
        min_delta=0.05 / max(1, len(val_rows or ())),
        warmup=WARMUP,
        seed=seed,
    )
    return NetFitted(net, train_rows.X[:1], record.best_epoch, device)


def fit_built(
    build: Build,
    train: Rows,
    val: Rows | None,
    *,
    classes: int,
    features: tuple[Feature, ...] = (),
    seed: int,
    device: str = "cpu",
    max_epochs: int | None = None,
    balanced: bool = False,
) -> Fitted:
    """`fit_net` for a net of the zoo."""
    made = partial(build, train.X, features, classes)
    return fit_net(
        made, train, val, classes=classes, seed=seed, device=device, max_epochs=max_epochs, balanced=balanced
    )


def stopping_score(net: nn.Module, rows: Rows, device: str, balanced: bool = False) -> Callable[[], float]:
    """Accuracy on the validation rows, ties broken by log-loss: (errors + loss / (1 + loss)) / n, lower is better.
    ``balanced``: an error counts the more the rarer its class (one for the commonest), so balanced accuracy decides.

    The second term is below one error, so it only decides between epochs of equal accuracy. Without it a site whose
    validation rows are few or of one class would keep the barely trained first epoch that gets them all right. It must
    fall by 0.05 to count, or a slowly falling loss would make trainings several times longer for the same accuracy.
    """
    inputs, y = tensors(rows.X, device), torch.as_tensor(rows.y, dtype=torch.int64).to(device)
    parts = list(slices(rows.X))
    _, place, counts = np.unique(rows.y, return_inverse=True, return_counts=True)
    weights = torch.as_tensor(counts.max() / counts[place] if balanced else np.ones(len(y)), device=device)

    def score() -> float:
        logits = torch.cat([net(*(tensor[part] for tensor in inputs)) for part in parts])
        loss = nn.functional.cross_entropy(logits, y).item()
        errors = float(weights[logits.argmax(dim=1) != y].sum())
        return (errors + loss / (1.0 + loss)) / len(y) if np.isfinite(loss) else loss

    return score
