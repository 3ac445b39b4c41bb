"""FedDES as published: a graph neural network selects and weights the models of a pool for every single row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from peerwise.errors import ConfigError, DataError, ParcelError
from peerwise.space import DecisionSpace, InputFeatures, QueryEdges, query_edges, train_graph
from peerwise.space.competence import meta_labels
from peerwise.space.neighbours import Membership
from peerwise.space.outputs import Array, flat
from peerwise.trust.base import Decision, Labelled, Vote, some_rows
from peerwise.trust.competence import Weights, select_by_competence
from peerwise.trust.gnn import Edges, MetaNet, Sent, TorchGraph
from peerwise.trust.trained import TrainedCompetence

Features = Literal["decision", "input", "both"]
QUERY_ROWS = 256  # queries answered at a time, to bound memory


class FedDES(TrainedCompetence):
    """Federated dynamic ensemble selection with the published settings (Mueller & Street, 2026, arXiv 2603.28006).

    The pool's M models map a row to its decision vector phi(x) of M * C calibrated probabilities. Train rows are
    linked to their ``k`` nearest rows of every class (L1 over phi, weighted by cumulative mean distance) and to the
    ``classifiers`` models with the highest gain G(m, j) = sum_i w_ij (Z_im - mean_m Z_im) among those neighbours. A
    two-layer, four-head GATv2 over this graph is trained to tell which models answer a row rightly:

        loss = mean over train rows and models of BCE(s_im, Z_im)          Z_im = 1 if model m is right on row i
        w_m = sigmoid(s_m) if > 0.5 else 0, normalized;  none: all alike    p(y) = sum_m w_m [model m says y]

    ``weights="sigmoid"`` is this rule, equation 4 of the paper. Its weights lie in (0.5, 1], so the effective ensemble
    size (ESS, 1 / sum of squared weights) is at least 8/9 = .889 of the number of selected models, whatever the
    scores. The paper's Table 3 reports .85 to .48.
    ``weights="logit"``, w_m = s_m where s_m > 0, goes below the bound, but not as far (docs/results/feddes.md).

    Departs from the paper where it is silent: neighbours within a class are weighted by softmax(-distance / median);
    gains become edge weights by min-max over the pool; edge weights enter the attention as a feature
    (``edge_weights``); the last state gets the projected input added (``residual``); temperatures are fitted on the
    train rows. ``features``: what a sample node carries, the decision vector, the raw input, or both (learned from
    outputs without X, it is always the decision vector). Without validation rows there is no early stopping and
    ``fixed_epochs`` epochs are run. `PeerwiseClassifier` gets better answers from the same pool in a fraction of the
    time.

    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(120, random_state=0)
    >>> clf = FedDES(random_state=0, epochs=5).fit(X, y)
    >>> clf.trust(X).shape, bool(np.allclose(clf.trust(X).sum(axis=1), 1))
    ((120, 3), True)
    """

    def __init__(
        self,
        pool: Any = None,
        *,
        own: Sequence[str | int] = (),
        k: int = 5,
        classifiers: int = 3,
        features: Features = "input",
        calibrate: bool = True,
        membership: Membership = "none",
        min_positives: int = 0,
        vote: Vote = "hard",
        weights: Weights = "sigmoid",
        hidden: int = 128,
        heads: int = 4,
        dropout: float = 0.2,
        edge_weights: bool = True,
        residual: bool = True,
        lr: float = 1e-3,
        epochs: int = 300,
        patience: int = 20,
        fixed_epochs: int = 40,
        batch_size: int = 32,
        device: str = "cpu",
        random_state: int | None = None,
    ) -> None:
        super().__init__(pool, own=own, vote=vote)
        self.k = k
        self.classifiers = classifiers
        self.features = features
        self.calibrate = calibrate
        self.membership = membership
        self.min_positives = min_positives
        self.weights = weights
        self.hidden = hidden
        self.heads = heads
        self.dropout = dropout
        self.edge_weights = edge_weights
        self.residual = residual
        self.lr = lr
        self.epochs = epochs
        self.patience = patience
        self.fixed_epochs = fixed_epochs
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state

    # ---- learning ------------------------------------------------------------------------------------------------

    def _learn(self, rows: Labelled, validation: Labelled | None) -> None:
        self.space_ = DecisionSpace.fit(
            rows.logits,
            rows.y,
            k=self.k,
            calibrated=self.calibrate,
            membership=self.membership,
            min_positives=self.min_positives,
        )
        with_input = rows.X is not None and self.features != "decision"
        self.input_ = InputFeatures.fit(rows.X) if with_input else None
        found = train_graph(self.space_, self.classifiers)
        features = self._node_features(self.space_.probabilities, rows.X)
        self.net_ = self._seeded(lambda: self._new_net(features.shape[1], found.classifier_features.shape[1]))
        graph = TorchGraph.of(found, self._tensor(features), self.device)
        self._train(
            torch.arange(len(rows.y), device=self.device),
            self._tensor(self.space_.correct.astype(np.float32)),
            lambda some: self.net_.train_scores(graph, some),
            self._held_out(graph, validation) if validation else None,
        )
        with torch.no_grad():
            self.sent_ = self.net_.send(graph)

    def _held_out(self, graph: TorchGraph, rows: Labelled) -> tuple[Callable[[], Tensor], Tensor]:
        queries = self._queries(rows.logits, rows.X)
        targets = self._tensor(meta_labels(rows.logits, rows.y, self.min_positives).astype(np.float32))
        return lambda: self.net_.query_scores(self.net_.send(graph), *queries), targets

    def _new_net(self, sample_width: int, classifier_width: int) -> MetaNet:
        return MetaNet(
            sample_width,
            classifier_width,
            self.space_.models,
            hidden=self.hidden,
            heads=self.heads,
            dropout=self.dropout,
            edge_weights=self.edge_weights,
            residual=self.residual,
        ).to(self.device)

    # ---- answering -----------------------------------------------------------------------------------------------

    def _decide(self, logits: Array, X: Any) -> Decision:
        return select_by_competence(self._competence(logits, X), self.weights)

    def _competence(self, logits: Array, X: Any) -> NDArray[np.float64]:
        parts = [np.empty((0, self.space_.models))]
        with torch.no_grad():
            for start in range(0, len(logits), QUERY_ROWS):
                some = slice(start, start + QUERY_ROWS)
                queries = self._queries(logits[some], None if X is None else some_rows(X, some))
                scores = self.net_.query_scores(self.sent_, *queries)
                parts.append(torch.sigmoid(scores.double()).cpu().numpy())
        return np.concatenate(parts)

    def _queries(self, logits: Array, X: Any) -> tuple[Tensor, Edges, Edges]:
        edges: QueryEdges = query_edges(self.space_, logits, self.classifiers)
        features = self._node_features(self.space_.project(logits), X)
        return self._tensor(features), Edges.of(edges.samples, self.device), Edges.of(edges.classifiers, self.device)

    def _node_features(self, probabilities: Array, X: Any) -> Array:
        decision = flat(probabilities)
        if self.input_ is None:
            return decision
        if X is None:
            raise DataError(
                f"X is missing: this learner was fitted with features={self.features!r} and needs the inputs."
            )
        inputs = self.input_.transform(X)
        return inputs if self.features == "input" else np.concatenate([decision, inputs], axis=1)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(array, device=self.device)

    def check_settings(self) -> None:
        super().check_settings()
        self._whole_from(1, "k", "classifiers", "heads")
        self._whole_from(0, "min_positives")
        if self.features not in ("decision", "input", "both"):
            raise ConfigError(f"features={self.features!r}: expected 'decision', 'input' or 'both'.")
        if self.membership not in ("none", "soft"):
            raise ConfigError(f"membership={self.membership!r}: expected 'none' or 'soft'.")
        if self.weights not in ("sigmoid", "logit"):
            raise ConfigError(f"weights={self.weights!r}: expected 'sigmoid' or 'logit'.")

    # ---- keeping -------------------------------------------------------------------------------------------------

    def _fitted_tree(self) -> dict[str, Any]:
        return {
            **super()._fitted_tree(),
            "input": self.input_.to_tree() if self.input_ else None,
            "sent": [value.cpu().numpy() for value in (*self.sent_.first, *self.sent_.second)],
        }

    def _restore_tree(self, tree: dict[str, Any]) -> None:
        super()._restore_tree(tree)
        self.input_ = InputFeatures.from_tree(tree["input"]) if tree["input"] else None
        samples, classifiers = (tree["net"][f"{kind}_in.weight"].shape[1] for kind in ("sample", "classifier"))
        self.net_ = self._restored(lambda: self._new_net(samples, classifiers), tree)
        sent = [self._tensor(value) for value in tree["sent"]]
        rows, models = self.space_.correct.shape
        wide = self.heads * self.hidden
        if [tuple(value.shape) for value in sent] != [(rows, wide), (models, wide)] * 2:
            raise ParcelError("the saved graph does not fit its rows and models: it was changed or cut short.")
        self.sent_ = Sent((sent[0], sent[1]), (sent[2], sent[3]))
