"""FedOV: open-set nets whose outliers are destroyed copies of a site's own rows, and a vote of those that know."""

from __future__ import annotations

from peerwise.methods.open_voting import OpenVoting, checked_attack
from peerwise.models.open_set.learning import OpenPlan
from peerwise.models.open_set.losses import Terms


class FedOV(OpenVoting):
    """Federated open voting (Diao, Li and He, ICLR 2023).

    L = CE(f(x), y) + CE(f(x~), u) + CE(f(x~ attacked), u) + CE(f(x) with f_y lowered, u) + 0.01 CE(g(mixed h), u)

    u: the extra class "unknown"; x~: a destroyed copy of each row (images: cropped, blurred, erased, cut or rotated;
    tables: each column permuted by itself); attacked: ``attack_steps`` of ``attack_size`` up the gradient of
    CE(f(x~), u), at most ``attack_radius`` away, in shares of the range of a pixel or of a column's spread. The last
    two terms are PROSER's placeholders (``second_best``, ``between``), h the embedding of x and g the last layer.
    ``destroyed`` and ``attack_steps`` = 0 take away the two before them. At prediction the ``top`` models of smallest
    unknown probability vote with the sum of their known ones.

    Departs from the paper: h is the input of the last layer, in every net; an attack does not use a batch's own
    statistics; batches of 16 rather than 64 and a falling learning rate, as in FedSOV; the authors report every ``top``
    and choose none.
    """

    def __init__(
        self,
        local_epochs: int = 10,
        batch_size: int = 16,
        lr: float = 1e-3,
        weight_decay: float = 1e-5,
        top: int = 3,
        attack_steps: int = 5,
        attack_size: float = 0.002,
        attack_radius: float = 0.5,
        destroyed: bool = True,
        second_best: bool = True,
        between: bool = True,
    ) -> None:
        super().__init__(local_epochs, batch_size, lr, weight_decay, top)
        self.attack = checked_attack(attack_steps, attack_size, attack_radius)
        self.destroyed = destroyed
        self.second_best = second_best
        self.between = between

    def plan(self) -> OpenPlan:
        return OpenPlan(
            epochs=self.local_epochs,
            terms=Terms(self.destroyed, self.attack, second_best=self.second_best, between=self.between),
            batch_size=self.batch_size,
            lr=self.lr,
            weight_decay=self.weight_decay,
        )
