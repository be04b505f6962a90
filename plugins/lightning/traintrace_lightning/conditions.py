"""Where a row of the event table applies: asked once per event name, so that idle events cost nothing."""

from typing import Final

from traintrace_lightning.fit import TracedFit
from traintrace_lightning.namespaces import is_overridden
from traintrace_lightning.stream import EventName

# Evaluation is timed as a whole, and a checkpoint too: their hooks have no account of their own.
_INSIDE_OTHERS: Final = (
    "on_validation",
    "on_test",
    "on_predict",
    "on_sanity",
    "on_save_checkpoint",
)
_FINDERS: Final = ("BatchSizeFinder", "LearningRateFinder")


def times_phases(fit: TracedFit, name: EventName | None = None) -> bool:
    """Phases are timed in this run."""
    return fit.session.level != "step"


def moves_batches(fit: TracedFit, name: EventName) -> bool:
    """The loop's transfers are timed."""
    return fit.moves_batches


def is_all_forward(fit: TracedFit, name: EventName) -> bool:
    """No call inside `training_step` can be seen."""
    return fit.forward_is_training_step


def opens_late(fit: TracedFit, name: EventName) -> bool:
    """The step has not opened by a fetch: the module fetches inside its own step."""
    return fit.iterates_itself


def is_users(fit: TracedFit, name: EventName) -> bool:
    """The module brings this hook itself."""
    return times_phases(fit, name) and is_overridden(fit.trainer.lightning_module, name.hook)


def clips(fit: TracedFit, name: EventName) -> bool:
    """There is something to clip, or the module clips by itself."""
    wanted = fit.trainer.gradient_clip_val
    return is_users(fit, name) or (times_phases(fit, name) and bool(wanted))


def clips_by_hand(fit: TracedFit) -> bool:
    """The module clips in its own training step, where no hook tells of it."""
    return times_phases(fit) and not fit.trainer.lightning_module.automatic_optimization


def is_tuning(fit: TracedFit, name: EventName) -> bool:
    """The callback is a batch-size or learning-rate finder: it trains on trial."""
    return any(
        is_finder(callback) and is_overridden(callback, name.hook)
        for callback in _callbacks(fit, name)
    )


def is_busy_callback(fit: TracedFit, name: EventName) -> bool:
    """Another callback brings this hook."""
    if name.hook.startswith(_INSIDE_OTHERS) or not times_phases(fit, name):
        return False
    return any(
        type(callback) is not type(fit.callback) and is_overridden(callback, name.hook)
        for callback in _callbacks(fit, name)
    )


def is_finder(callback: object) -> bool:
    """Say whether `callback` is one of Lightning's finders, under either name of Lightning."""
    return any(cls.__name__ in _FINDERS for cls in type(callback).__mro__)


def _callbacks(fit: TracedFit, name: EventName) -> list[object]:
    return [each for each in fit.trainer.callbacks if each.state_key == name.key]
