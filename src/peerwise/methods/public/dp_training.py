"""DP-SGD (Abadi et al., 2016) as a step of the one training loop, by Opacus.

    g~ = (sum over rows of the batch of g_i min(1, clip / |g_i|) + noise clip N(0, I)) / expected batch
    g  = g~ + gradient of the public loss

Public rows and their consensus are not private, so their gradient comes after clipping and noise, whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from peerwise.errors import ModelError
from peerwise.methods.public.extra import privacy_library
from peerwise.models.training import Batch, Optimizer


@contextmanager
def private_step(
    net: nn.Module,
    optimizer: Optimizer,
    *,
    clip: float,
    noise: float,
    expected_batch: float,
    chance: int | np.random.Generator,
    public_loss: Callable[[], Tensor] | None = None,
) -> Iterator[Callable[[Batch], float]]:
    """An ``update`` for ``train(net, tensors, update=..., optimizer=optimizer, poisson=True)``, while the block lasts.

    The loss is cross entropy. ``expected_batch`` is the sample rate times the rows, whatever a batch holds; an empty
    batch is a step of noise. ``chance`` draws it: a generator of numpy's, or the seed of one of torch's, which takes 32
    bits of it. ``public_loss()`` is computed with ``net`` and weighted already. What a step returns, the
    batch's mean loss, is not private. Nor is what else was learned from the rows: class weights, scaling, the choice
    of an epoch by private rows.
    """
    check_trainable(net)
    wrapped = privacy_library("opacus.grad_sample").GradSampleModule(net, loss_reduction="sum")
    sizes = {"max_grad_norm": clip, "expected_batch_size": expected_batch}
    noisy = privacy_library("opacus.optimizers").DPOptimizer(optimizer, **sizes, **_drawn_by_torch(net, noise, chance))

    def step(batch: Batch) -> float:
        loss = _row_gradients(net, noisy.params, batch)
        _clip_and_noise(noisy)
        if isinstance(chance, np.random.Generator):
            _add_noise(noisy.params, noise * clip / expected_batch, chance)
        if public_loss is not None:
            wrapped.disable_hooks()
            public_loss().backward()  # type: ignore[no-untyped-call]
            wrapped.enable_hooks()
        optimizer.step()
        return loss

    straightened = [layer.register_forward_pre_hook(_straight) for layer in net.modules() if type(layer) is nn.Conv2d]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            yield step
    finally:
        for hook in straightened:
            hook.remove()
        wrapped.to_standard_module()
        for parameter in noisy.params:
            del parameter.summed_grad


def _drawn_by_torch(net: nn.Module, noise: float, chance: int | np.random.Generator) -> dict[str, Any]:
    """The noise that Opacus adds: none where a generator of numpy's draws it."""
    if isinstance(chance, np.random.Generator):
        return {"noise_multiplier": 0.0, "generator": None}
    generator = torch.Generator(next(net.parameters()).device).manual_seed(chance)
    return {"noise_multiplier": noise, "generator": generator}


def _row_gradients(net: nn.Module, parameters: list[Any], batch: Batch) -> float:
    """Fill ``grad_sample`` (rows, *shape) of every parameter; the mean loss, 0 without rows."""
    for parameter in parameters:
        parameter.grad = parameter.grad_sample = parameter.summed_grad = None
    rows = len(batch[-1])
    if not rows:
        for parameter in parameters:
            parameter.grad_sample = parameter.new_zeros((0, *parameter.shape))
        return 0.0
    total = nn.functional.cross_entropy(net(*batch[:-1]), batch[-1], reduction="sum")
    total.backward()  # type: ignore[no-untyped-call]
    return total.item() / rows


def _clip_and_noise(noisy: Any) -> None:
    """From ``grad_sample`` to ``grad``, in the parameter's memory order, which fused optimisers take for granted."""
    noisy.pre_step()
    for parameter in noisy.params:
        parameter.grad = torch.empty_like(parameter).copy_(parameter.grad)


def _add_noise(parameters: list[Any], sigma: float, chance: np.random.Generator) -> None:
    for parameter in parameters:
        drawn = torch.from_numpy(sigma * chance.standard_normal(tuple(parameter.shape)))
        parameter.grad += drawn.to(parameter.device, parameter.dtype)


def _straight(layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Images in the usual memory order: Opacus reads those with channels last as if they were not, and does not say."""
    return tuple(image.clone(memory_format=torch.contiguous_format) for image in inputs)


def check_trainable(net: nn.Module) -> None:
    """Refuse a net in which one row's gradient depends on other rows, or cannot be told from theirs."""
    validate = privacy_library("opacus.validators").ModuleValidator.validate
    known = privacy_library("opacus.grad_sample").GradSampleModule.GRAD_SAMPLERS
    net.train()
    refused = []
    for name, layer in net.named_modules():
        own = any(parameter.requires_grad for parameter in layer.parameters(recurse=False))
        mixes_rows = not list(layer.children()) and validate(layer, strict=False)
        if mixes_rows or (own and type(layer) not in known):
            refused.append(f"{name or 'the net'} ({type(layer).__name__})")
    if refused:
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        raise ModelError(
            f"{', '.join(refused[:3])}{more} cannot be trained with DP-SGD, which needs the gradient of each row by "
            "itself. Use a net without such layers (for images cnn8, lenet or small_cnn, for tables mlp, for sequences "
            "cnn1d): GroupNorm in the place of BatchNorm is fine."
        )


def noisy_mean_loss(losses: ArrayLike, bound: float, sigma: float, rng: np.random.Generator) -> float:
    """(sum_i min(max(l_i, 0), bound) + sigma bound N(0, 1)) / n, not below 0: what lambda may be computed from.

    One row adds at most ``bound`` to the sum, so ``sigma`` is sensitivity over noise as in `PrivateTraining`.
    """
    rows = np.asarray(losses, dtype=np.float64)
    if not (rows.size and bound > 0 and np.isfinite(rows).all()):
        raise ModelError(
            f"{rows.size} losses with bound {bound}: expected at least one, all finite, and a bound above 0."
        )
    total = np.clip(rows, 0.0, bound).sum() + sigma * bound * rng.standard_normal()
    return max(0.0, float(total / rows.size))
