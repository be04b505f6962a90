"""What a module logs with `self.log`: kept under the names and with the values that Lightning hands to its loggers.

| logged                                  | where it is read                              | at which step        |
|-----------------------------------------|-----------------------------------------------|----------------------|
| in a training step, `on_step=True`      | the loop's results, as its update is complete | that update's        |
| per epoch, of training or of evaluation | what `log_metrics` is called with             | the last one before  |

Each value is one that Lightning has made already: under accumulation that of the update's last micro-batch,
as the user logged it. Nothing is reduced or computed here, and nothing waits for a device: from a CUDA device
a value is copied and read when it has arrived; of others it is left where it is.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from threading import get_ident
from typing import Any, Final

import torch

from traintrace.patching import replace_attribute
from traintrace.pytorch.scalars import read_scalar
from traintrace.recording.logged import Deferred
from traintrace.session import Session

_NAMES_KEPT: Final = 64


class LoggedMetrics:
    """Reads the metrics of one fit.

    Attributes:
        of_batches: What the training loop has collected so far, by key; empty if the module logs nothing.
    """

    def __init__(self, session: Session, trainer: Any) -> None:
        self._session = session
        self._connector: Any = getattr(trainer, "_logger_connector", None)
        loop = getattr(trainer.fit_loop, "epoch_loop", None)
        # One object as long as the loop lives; it is empty now.
        found = getattr(loop, "_results", None)
        self.of_batches: Mapping[str, Any] = {} if found is None else found
        self._seen: dict[str, object] = {}
        self._names: dict[str, None] = {}
        self._waiting: list[tuple[int, str, Deferred]] = []

    def take(self) -> None:
        """Note what was logged since the last update, with the step that is about to be completed."""
        session = self._session
        if self._waiting:
            self._log_arrived()
        with session.faults.guard("the values that the module logged"):
            for key, result in self.of_batches.items():
                # A value of an earlier batch stays there: it was noted then.
                value = result._forward_cache
                if value is not self._seen.get(key) and result.meta.on_step:
                    self._seen[key] = value
                    read = self._read(result.meta.forked_name(on_step=True), value)
                    if read is not None:
                        session.capture.log(result.meta.forked_name(on_step=True), read)

    def watch_epochs(self) -> Iterator[Callable[[], None]]:
        """See what is logged for a whole epoch or evaluation; give what undoes that."""
        original = getattr(self._connector, "log_metrics", None)
        if original is None:
            return

        @functools.wraps(original)
        def log_metrics(metrics: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(metrics, *args, **kwargs)
            # Within an epoch it is called with what single batches logged.
            is_of_epoch = getattr(self._connector, "_first_loop_iter", False) is None
            if is_of_epoch and metrics and get_ident() == self._session.journal.owner:
                with self._session.faults.guard("the values that the module logged for an epoch"):
                    self._keep(metrics)
            return result

        yield replace_attribute(self._connector, "log_metrics", log_metrics)

    def _keep(self, metrics: Mapping[str, Any]) -> None:
        session = self._session
        for name, value in metrics.items():
            read = self._read(name, value)
            if isinstance(read, float):
                session.log_completed(name, read)
            elif read is not None:
                self._waiting.append((session.steps, name, read))

    def _read(self, name: str, value: Any) -> Any:
        """Give a float or what will be one; None for what is no single number, or cannot be read without waiting."""
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            return None
        if name not in self._names:
            if len(self._names) >= _NAMES_KEPT:
                self._session.unmeasured["logged_values"] = f"names after the first {_NAMES_KEPT}"
                return None
            self._names[name] = None
        if value.device.type not in ("cpu", "cuda"):
            reason = f"reading them would wait for the device ({value.device.type})"
            self._session.unmeasured["logged_values"] = reason
            return None
        return read_scalar(value)

    def _log_arrived(self) -> None:
        waiting, self._waiting = self._waiting, []
        for step, name, value in waiting:
            if value.ready():
                self._session.log_completed(name, value.value(), step)
            else:
                self._waiting.append((step, name, value))

    def take_rest(self) -> None:
        """The fit is over: note what has arrived of its last epoch."""
        with self._session.faults.guard("the values that the module logged for an epoch"):
            self._log_arrived()
