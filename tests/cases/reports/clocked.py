"""Real training on a clock of its own: torch trains, the tracer traces, and a step takes what it is told to take."""

import contextlib
import functools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from tests.labs.torch_loop import Net, sgd
from traintrace.session import Session
from traintrace.testing import FakeClock
from traintrace_plain_torch import Tracer, trace

STEP: Final[Mapping[str, float]] = {
    "input_wait": 1.0,
    "forward": 4.0,
    "backward": 6.0,
    "optimizer": 1.0,
}


class Clocked:
    """Trains runs whose steps take given milliseconds, phase by phase, with noise of a seed.

    Attributes:
        clock: What the tracer takes for the time.
        folder: Where the runs are.
    """

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.folder = folder

    def pass_ms(self, ms: float) -> None:
        """Let time go by."""
        self.clock.advance(round(ms * 1e6))

    def train(
        self,
        name: str,
        ms: Mapping[str, float] = STEP,
        *,
        steps: int = 60,
        cv: float = 0.02,
        warmup: int = 0,
        micro_batches: int = 1,
        batch_size: int = 8,
        between: Mapping[int, tuple[str, float]] | None = None,
        follow: bool = True,
        **options: Any,
    ) -> Path:
        """Train, and give the run's folder.

        Args:
            name: Of the run; its noise comes from it too.
            ms: What a step takes, all its micro-batches together.
            steps: Updates.
            cv: Noise from step to step, as a share.
            warmup: So many first steps take four times as long.
            micro_batches: Batches an update.
            batch_size: Samples a batch.
            between: After which steps an "evaluating" or "checkpointing" takes how many milliseconds.
            follow: False keeps the model from the tracer, so that its forward is seen by nobody.
            options: Of `trace`.
        """
        chance = random.Random(name)
        model = Net()
        optimizer = sgd(model)
        batch = torch.ones(batch_size, 4)
        part: dict[str, float] = {}

        def batches() -> Iterator[torch.Tensor]:
            for index in range(steps * micro_batches):
                if index % micro_batches == 0:
                    stretch = (1.0 + chance.gauss(0.0, cv)) / micro_batches
                    stretch *= 4.0 if index < warmup * micro_batches else 1.0
                    part.update({phase: spent * stretch for phase, spent in ms.items()})
                self.pass_ms(part["input_wait"])
                yield batch

        optimizer.register_step_post_hook(
            lambda *_: self.pass_ms(part["optimizer"] * micro_batches)
        )
        model.register_forward_pre_hook(lambda *_: self.pass_ms(part["forward"]))
        bias: Any = model.second.bias
        bias.register_hook(lambda _: self.pass_ms(part["backward"]))
        options = {"run_dir": self.folder, "name": name, "print_report": False, **options}
        with trace(model if follow else None, optimizer, **options) as tracer:
            for index, given in enumerate(tracer.batches(batches()), start=1):
                with tracer.step():
                    loss: Any = model(given).mean()
                    loss.backward()
                    if index % micro_batches == 0:
                        optimizer.step()
                        optimizer.zero_grad()
                what, pause_ms = (between or {}).get(index // micro_batches, ("", 0.0))
                with _block(tracer, what):
                    self.pass_ms(pause_ms)
        return self.folder / name


def _block(tracer: Tracer, what: str) -> Any:
    return getattr(tracer, what)() if what else contextlib.nullcontext()


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clocked:
    """Trainings in a folder of their own."""
    made = Clocked(tmp_path / "runs")
    timed = functools.partialmethod(Session.__init__, now=made.clock)
    monkeypatch.setattr(Session, "__init__", timed)
    return made
