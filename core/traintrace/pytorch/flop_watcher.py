"""See each operation while a call lasts, and let it do what it would do."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from traintrace.pytorch.flop_formulas import format_of, heavy_and_unknown, operations, uses_tf32


class FlopWatcher(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
    """Notes the size of each operation while it is entered; changes none.

    Attributes:
        notes: Number format, operations, and whether gradients were on, of each that was counted.
        unknown: Names of heavy operations without a formula.
        is_sharded: True once a tensor was seen that stands for pieces on several ranks.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.notes: list[tuple[str, int, bool]] = []
        self.unknown: set[str] = set()
        self.is_sharded = False
        self._tf32 = uses_tf32()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        # Backward runs on threads of its own on a device: only an append, which is one step for all.
        try:
            flops = operations(func, args, kwargs or {}, out)
            if flops:
                self.notes.append(
                    (format_of(func, args, self._tf32), flops, torch.is_grad_enabled())
                )
            elif flops is None and heavy_and_unknown(func):
                self.unknown.add(str(func))
            self.is_sharded |= any(kind.__name__ == "DTensor" for kind in types)
        except Exception:  # noqa: BLE001 - of another shape than its formula knows: the run names it
            self.unknown.add(str(func))
        return out

    def put_on(self) -> None:
        """Enter the mode, over all others that this thread has."""
        self.__enter__()  # type: ignore[no-untyped-call]

    def take_off(self) -> None:
        """Leave the mode; one that somebody entered meanwhile, and leaves later, stays on without it."""
        stack = _get_current_dispatch_mode_stack()
        place = next((place for place, mode in enumerate(stack) if mode is self), None)
        if place is None:
            return
        above: list[Any] = stack[place + 1 :]
        # By torch's own class: what a mode does beside that when it is entered or left is its user's affair.
        for mode in reversed(above):
            TorchDispatchMode.__exit__(mode, None, None, None)  # type: ignore[no-untyped-call]
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        for mode in above:
            TorchDispatchMode.__enter__(mode)  # type: ignore[no-untyped-call]
