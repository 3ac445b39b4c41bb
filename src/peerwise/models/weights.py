"""Torch weights as safetensors: arrays and names, no code."""

from __future__ import annotations

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from peerwise.errors import BrokenFile, ModelError


def save_weights(net: nn.Module) -> bytes:
    """Parameters and buffers of ``net`` as safetensors bytes."""
    # clone: safetensors refuses two names that share memory, and keeps no channels_last strides
    return bytes(save({name: value.detach().cpu().clone().contiguous() for name, value in net.state_dict().items()}))


def load_weights(net: nn.Module, data: bytes) -> None:
    """Put weights written by `save_weights` into ``net``, which must have the same names and shapes."""
    try:
        state: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        raise BrokenFile(
            f"{len(data)} bytes are no readable safetensors file ({error}): it may be truncated, fetch it again."
        ) from error
    own = {name: tuple(value.shape) for name, value in net.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    if own != given:
        odd = sorted(name for name in own.keys() | given.keys() if own.get(name) != given.get(name))
        raise ModelError(
            f"weights do not fit {type(net).__name__}: {len(odd)} names differ (first: {odd[0]!r}, net "
            f"{own.get(odd[0])}, file {given.get(odd[0])}). Build the net with the sizes it was saved with."
        )
    net.load_state_dict(state)
