"""Install what sees the boundaries of one fit, on this fit's own objects; `session.undo` takes it off."""

import functools
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from typing import Any, Final, NamedTuple

import torch

from traintrace.accounts import OPTIMIZER
from traintrace.patching import replace_attribute
from traintrace.pytorch.backward import trace_backward
from traintrace.pytorch.collectives import trace_collectives
from traintrace.pytorch.optimizer import trace_optimizers
from traintrace.pytorch.ownwork import mark_own_work
from traintrace.recording.journal import Journal
from traintrace.session import Session
from traintrace_lightning.fit import TracedFit
from traintrace_lightning.parts import TracedParts
from traintrace_lightning.stream import EventName, Events, Row, call_when_over, listen

_OPTIMIZER_FILE: Final = sys.modules[torch.optim.Optimizer.__module__].__file__


class Wrap(NamedTuple):
    """A method whose whole call belongs to one account.

    Attributes:
        path: Where its owner is, from the trainer on; empty for the trainer.
        method: Its name. A release without it loses that split, no more.
        account: The account.
        after: A boundary of the fit that is reached when the call has returned.
        where: Says whether it is wrapped in this fit.
    """

    path: str
    method: str
    account: int
    after: Callable[[TracedFit], None] | None = None
    where: Callable[[TracedFit], bool] = lambda fit: True


def install_on_trainer(fit: TracedFit, stream: Sequence[Row], wraps: Sequence[Wrap]) -> None:
    """Install what sees the trainer's own events; before anything of the fit has happened."""
    events = Events(fit, stream)
    fit.forget_events = events.clear
    undo = fit.session.undo
    for undo_one in listen(fit.trainer.profiler, events):
        undo.callback(undo_one)
    for wrap in wraps:
        owner = fit.trainer
        for name in filter(None, wrap.path.split(".")):
            owner = getattr(owner, name, None)
        if hasattr(owner, wrap.method) and wrap.where(fit):
            undo.callback(_wrap(fit, owner, wrap))
    for undo_one in fit.logged.watch_epochs():
        undo.callback(undo_one)


def watch_for_end(fit: TracedFit, last_event: EventName) -> None:
    """See the end of a fit whose recording has stopped, and nothing else any more."""
    undo = call_when_over(fit.trainer.profiler, last_event, fit.is_over)
    fit.session.undo.callback(undo)


def _wrap(fit: TracedFit, owner: Any, wrap: Wrap) -> Callable[[], None]:
    original, after = getattr(owner, wrap.method), wrap.after
    journal = fit.session.journal
    enter, leave = journal.marker(wrap.account), journal.marker(~wrap.account)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if get_ident() != journal.owner:
            return original(*args, **kwargs)
        try:
            enter()
            return original(*args, **kwargs)
        finally:
            leave()

    @functools.wraps(original)
    def call_and_tell(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        if after is not None and get_ident() == journal.owner:
            with fit.session.faults.guard("some boundaries of a Lightning run"):
                after(fit)
        return result

    return replace_attribute(owner, wrap.method, call if after is None else call_and_tell)


def install_on_training(fit: TracedFit) -> None:
    """Install what sees the work itself; after checkpoints are loaded and copies of the model made.

    | call                           | account                                              |
    |--------------------------------|------------------------------------------------------|
    | a part of the module           | forward; see `parts`                                 |
    | loss.backward(), autograd.grad | backward (gradient_sync after this rank's own work)  |
    | optimizer.step()               | optimizer, without its closure                       |
    | torch.distributed.all_reduce() | communication, as with `log(sync_dist=True)`         |

    Backward is seen at `torch.autograd.backward` and not between Lightning's own hooks: every
    strategy's and every user's backward ends there, under manual optimization too, and no hook's
    dispatch (35 us) lies inside.
    """
    session = fit.session
    phases = session.level != "step"
    installed = [trace_optimizers(session, charge=phases)]
    if phases:
        module = fit.trainer.lightning_module
        strategy = fit.trainer.strategy
        wrapped = module if strategy.model is None else strategy.model
        installed += [trace_backward(session.journal), mark_own_work(session, wrapped)]
        installed += [_guard_updates(session, strategy), trace_collectives(session)]
        if not fit.forward_is_training_step:
            fit.parts = TracedParts(session, module)
            fit.parts.install()
    for each in installed:
        for undo_one in each:
            session.undo.callback(undo_one)


def _guard_updates(session: Session, strategy: Any) -> Iterator[Callable[[], None]]:
    """Close `optimizer` when an update raises: torch's own hook does not run then."""
    yield replace_attribute(
        strategy, "optimizer_step", _closed_on_error(session.journal, strategy.optimizer_step)
    )


def _closed_on_error(journal: Journal, original: Callable[..., Any]) -> Callable[..., Any]:
    leave = journal.marker(~OPTIMIZER)

    @functools.wraps(original)
    def optimizer_step(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            if get_ident() == journal.owner:
                for _ in range(_updates_left_by(error)):
                    leave()
            raise

    return optimizer_step


def _updates_left_by(error: BaseException) -> int:
    """Count the updates that `error` came out of: of each, torch called the first hook and not the second.

    None if it came from a closure that ran before the update, as with a gradient scaler; two if an
    optimizer's step called that of its base class.
    """
    codes = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    hooked = ("wrapper", _OPTIMIZER_FILE)  # what `Optimizer.profile_hook_step` makes
    return sum((code.co_name, code.co_filename) == hooked for code in codes)
