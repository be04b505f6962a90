"""Charge optimizer steps to `optimizer`, and know whether an update was attempted and skipped."""

import functools
from collections.abc import Callable, Iterator, Mapping
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from traintrace.accounts import OPTIMIZER
from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import outside_graphs
from traintrace.recording.journal import Journal
from traintrace.session import Session


def parameters_of(optimizer: Any) -> Iterator[torch.Tensor]:
    """Give the parameters that an optimizer holds; none where it does not hold them as torch's do."""
    groups = getattr(optimizer, "param_groups", None)
    for group in groups if isinstance(groups, (list, tuple)) else ():
        held = group.get("params") if isinstance(group, Mapping) else None
        if isinstance(held, (list, tuple)):
            yield from (one for one in held if isinstance(one, torch.Tensor))


def trace_optimizers(session: Session, *, charge: bool = True) -> Iterator[Callable[[], None]]:
    """Install what sees every step of every torch optimizer; give what undoes it.

    Args:
        session: Where steps are written and noted as updates.
        charge: False only notes that an update was attempted, and times nothing.
    """
    journal = session.journal
    before, after = _hooks(session, journal, charge)
    yield register_optimizer_step_pre_hook(before).remove
    yield register_optimizer_step_post_hook(after).remove
    yield _watch_scaler(session, journal)


def _hooks(session: Session, journal: Journal, charge: bool) -> tuple[Callable[..., None], ...]:
    enter, leave = journal.marker(OPTIMIZER), journal.marker(~OPTIMIZER)
    plain, now = journal.plain, journal.now
    is_compiling, is_foreign = torch.compiler.is_compiling, journal.is_foreign
    # Of a compiled step the first hook may be in the graph and the second not.
    entered: list[None] = []

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not charge or is_compiling():
            return
        if get_ident() == journal.owner or not is_foreign(get_ident()):
            entered.append(None)
            enter()

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if is_compiling() or get_ident() != journal.owner:
            return
        if entered:
            entered.pop()
            if plain is None:
                leave()
            else:
                plain((now(), ~OPTIMIZER))
        capture = session.capture
        capture.updated = session.update_seen = True
        capture.update_skipped = False

    return outside_graphs(before), outside_graphs(after)


def _watch_scaler(session: Session, journal: Journal) -> Callable[[], None]:
    """A gradient scaler that found infinities attempts an update and makes no optimizer step."""
    original = torch.amp.GradScaler.step

    @outside_graphs
    @functools.wraps(original)
    def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if get_ident() != journal.owner:
            return original(scaler, optimizer, *args, **kwargs)
        capture = session.capture
        skipped_before, capture.updated = capture.update_skipped, False
        result = original(scaler, optimizer, *args, **kwargs)
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            # A fused optimizer decides on the device whether it updates; the host cannot know.
            capture.update_skipped = None
        else:
            capture.update_skipped = not capture.updated or bool(skipped_before)
        capture.updated = True
        return result

    return replace_attribute(torch.amp.GradScaler, "step", step)


def trace_foreign_optimizer(session: Session, optimizer: Any) -> Iterator[Callable[[], None]]:
    """Charge `optimizer.step` of an object at whose steps torch runs no hooks."""
    if _is_hooked(optimizer) or not callable(getattr(optimizer, "step", None)):
        return
    journal, original = session.journal, optimizer.step
    enter, leave = journal.marker(OPTIMIZER), journal.marker(~OPTIMIZER)

    @outside_graphs
    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        if journal.is_foreign(get_ident()):
            return original(*args, **kwargs)
        try:
            enter()
            return original(*args, **kwargs)
        finally:
            leave()
            session.capture.updated = session.update_seen = True

    yield replace_attribute(optimizer, "step", step)


def _is_hooked(optimizer: Any) -> bool:
    """Say whether torch runs hooks at the steps of `optimizer`, or of the one that it wraps.

    One that derives from torch's but never called its `__init__` has none. A wrapper's own step may
    do nothing (accelerate's, while it accumulates): only the wrapped one's is an update.
    """
    for _ in range(4):  # wrappers nest a few deep at most
        if isinstance(optimizer, Optimizer) and getattr(type(optimizer).step, "hooked", False):
            return True
        optimizer = getattr(optimizer, "optimizer", None)
    return False
