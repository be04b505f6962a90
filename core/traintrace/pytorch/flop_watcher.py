"""See each operation while a call lasts, and let it do what it would do."""

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Final

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _push_mode,
)

from traintrace.pytorch.flop_formulas import format_of, heavy_and_unknown, operations, uses_tf32
from traintrace.pytorch.flop_refusals import (
    CPU_AUTOCAST,
    SHARED,
    told_of_cpu_autocast,
    under_cpu_autocast,
)

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
        refused: Why nothing of this is to be counted; "" as long as it is.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.notes: list[tuple[str, int, bool]] = []
        self.unknown: set[str] = set()
        self.refused = ""
        self._tf32 = uses_tf32()
        self._owner = -1
        self._is_inside = False
        self._undo_telling: Callable[[], None] | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._is_inside = True
        try:
            out = func(*args, **(kwargs or {}))
        finally:
            self._is_inside = False
        # Backward runs on threads of its own on a device: only an append, which is one step for all.
        try:
            flops = operations(func, args, kwargs or {}, out)
            if flops:
                self.notes.append(
                    (format_of(func, args, self._tf32), flops, torch.is_grad_enabled())
                )
            elif flops is None and heavy_and_unknown(func):
                self.unknown.add(str(func))
            if any(kind.__name__ == "DTensor" for kind in types):
                self.refused = SHARED.format("DTensor")
        except Exception:  # noqa: BLE001 - of another shape than its formula knows: the run names it
            self.unknown.add(str(func))
        return out

    def put_on(self) -> None:
        """Enter the mode, over all others that this thread has; not where it may change results."""
        if under_cpu_autocast():
            self.refused = CPU_AUTOCAST
            return
        self._owner = get_ident()
        self._undo_telling = told_of_cpu_autocast(self._leave_autocast_alone)
        self.__enter__()  # type: ignore[no-untyped-call]

    def _leave_autocast_alone(self) -> None:
        # What an operation switches on inside itself is as it would be: the mode is not on in there.
        if self._is_inside:
            return
        self.refused = CPU_AUTOCAST
        if get_ident() == self._owner:
            self.take_off()

    def take_off(self) -> None:
        """Leave the mode; one that somebody entered meanwhile, and leaves later, stays on without it.

        A signal's exception may have ended `put_on` or an earlier call half-way: this makes up for it.
        """
        if self._undo_telling is not None:
            self._undo_telling()
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
