"""Looking ahead, a second use, failures, bounded memory; from public reports."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from traintrace import facts, open_run


def test_l20_a_wait_for_a_later_batch_is_labelled(lab: Any) -> None:
    """PL#18135, PL#19539: data without a length is fetched one ahead, so waits land one step early."""

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            for item in range(5):
                time.sleep(0.15 if item == 2 else 0.03 if item == 0 else 0)
                yield torch.zeros(4)

    run = lab.fit(lab.Model(), torch.utils.data.DataLoader(Stream()))
    run.check_books()
    waits = run.column_ms("input_wait")
    assert len(waits) == 5
    assert waits[1] >= 150
    assert run.flagged(facts.LOOKAHEAD) == [True] * 5
    assert run.ms("epoch_boundary") >= 30  # batch 0 came before the first step


@pytest.mark.parametrize("profiler", [None, "simple", "advanced"])
def test_l21_one_callback_serves_fit_test_and_fit(lab: Any, profiler: str | None) -> None:
    """PL#9136, PL#17333: a second use ended in an error of the profiler's own."""

    class Model(lab.Model):  # type: ignore[misc]
        def test_step(self, batch: Any, batch_idx: int) -> None:
            pass

    callback, model = lab.callback(), Model()
    trainer = lab.trainer(callback, profiler=profiler)
    trainer.fit(model, lab.loader(3, 0))
    trainer.test(model, lab.loader(2, 0))
    trainer.fit_loop.max_epochs = 2
    trainer.fit(model, lab.loader(3, 0))
    runs = sorted((lab.folder / "runs").iterdir(), key=lambda folder: folder.stat().st_ctime)
    assert len(runs) == 2
    for folder in runs:
        run = open_run(folder).facts([])
        totals = run.ranks[0].totals
        assert (run.status, totals.steps, totals.steps_aborted) == ("completed", 3, 0)
        assert sum(totals.account_ns.values()) == totals.wall_ns


@pytest.mark.parametrize(
    ("error", "status"), [(ZeroDivisionError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_l22_a_fit_that_fails_leaves_its_report(
    lab: Any, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], status: str
) -> None:
    """PL#19594, PL#9183: when training fails, no hook of the end is called but one."""
    monkeypatch.setattr("signal.signal", lambda *arguments: None)  # Lightning disarms SIGINT

    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == 3:
                raise error
            return super().training_step(batch, batch_idx)

    callback = lab.callback()
    with pytest.raises((error, SystemExit)):
        lab.trainer(callback).fit(Model(), lab.loader(10, 5))
    summary = json.loads((callback.run_folder / "final_summary.json").read_text("utf-8"))
    assert summary["run"]["status"] == status
    assert (summary["counts"]["steps"], summary["counts"]["steps_aborted"]) == (3, 1)
    assert summary["wall"]["accounts_ns"]["aborted"] >= 5e6


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


@pytest.mark.parametrize("steps", [2_500, pytest.param(50_000, marks=pytest.mark.long)])
def test_l23_memory_does_not_grow_with_the_steps(lab: Any, steps: int) -> None:
    """PL#10717, PL#11480: the profiler's records filled the memory until the kernel ended the job."""
    seen = []

    class Look(lab.pl.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, *arguments: Any) -> None:
            if arguments[-1] in (500, steps - 1):
                seen.append(_resident_bytes())

    class Batches:
        def __len__(self) -> int:
            return steps

        def __iter__(self) -> Any:
            return (
                torch.zeros(1, 4096) for _ in range(steps)
            )  # of 16 KB, so that none may be kept

    class Model(lab.pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4096, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.net(batch).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    callback = lab.callback()
    lab.trainer(callback, Look()).fit(Model(), Batches())
    assert open_run(callback.run_folder).facts([]).ranks[0].totals.steps == steps
    assert seen[1] - seen[0] < 20e6
