"""Charge moves of tensors to another device to `h2d`. Nothing is installed without an accelerator."""

import functools
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

import torch

from traintrace.accounts import H2D
from traintrace.patching import replace_attribute
from traintrace.recording.journal import Journal


def trace_transfers(journal: Journal) -> Iterator[Callable[[], None]]:
    """Install what charges `Tensor.to` and `Tensor.cuda` where they move; give what undoes it.

    Moves inside forward, backward or evaluation stay there. Not seen: `copy_` into a static buffer
    and `torch.as_tensor(..., device=)`.
    """
    for name in ("to", "cuda"):
        original = getattr(torch.Tensor, name)
        yield replace_attribute(torch.Tensor, name, _charged(journal, original, name))


def _charged(journal: Journal, original: Callable[..., Any], name: str) -> Callable[..., Any]:
    enter, leave = journal.marker(H2D), journal.marker(~H2D)
    is_compiling = torch.compiler.is_compiling
    default = torch.device("cuda") if name == "cuda" else None

    @functools.wraps(original)
    def move(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or get_ident() != journal.owner:
            return original(tensor, *args, **kwargs)
        target = _target(args, kwargs) or default
        if target is None or _same(target, tensor.device):
            return original(tensor, *args, **kwargs)
        try:
            enter()
            return original(tensor, *args, **kwargs)
        finally:
            leave()

    return move


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Give the device that the arguments of `Tensor.to` name; None if they name none."""
    wanted = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    if isinstance(wanted, torch.Tensor):
        return wanted.device
    if isinstance(wanted, torch.device):
        return wanted
    if isinstance(wanted, (str, int)) and not isinstance(wanted, bool):
        return torch.device(wanted)
    return None


def _same(target: torch.device, current: torch.device) -> bool:
    return target.type == current.type and target.index in (None, current.index)
