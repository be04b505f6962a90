"""See each operation while a call lasts, and let it do what it would do."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _push_mode,
)

from traintrace.pytorch.flop_formulas import format_of, heavy_and_unknown, operations, uses_tf32

# Where a mode of torch keeps what was before it was entered.
_BEFORE: Final = (
    "old_dispatch_mode_flags",
    "old_non_infra_dispatch_mode_flags",
    "old_without_ignore_compile_internals_dispatch_mode_flags",
)


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
        """Leave the mode; one that somebody entered meanwhile, and leaves later, stays on without it.

        A signal's exception may have ended `put_on` or an earlier call half-way: this makes up for it.
        """
        before = [getattr(self, name, []) for name in _BEFORE]
        stack = _get_current_dispatch_mode_stack()
        place = next((place for place, mode in enumerate(stack) if mode is self), None)
        if place is None:
            if not any(before):
                return
            _push_mode(self)
            place = len(stack)
        above: list[Any] = stack[place + 1 :]
        # By torch's own class: what a mode does beside that when it is entered or left is its user's affair.
        for mode in reversed(above):
            TorchDispatchMode.__exit__(mode, None, None, None)  # type: ignore[no-untyped-call]
        for flags in before:
            if not flags:
                flags.append(False)
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        for mode in above:
            TorchDispatchMode.__enter__(mode)  # type: ignore[no-untyped-call]
