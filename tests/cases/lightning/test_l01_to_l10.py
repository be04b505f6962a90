"""What a step is made of, what lies between steps, and the rates that follow; from public reports."""

import json
import statistics
from typing import Any

import pytest
import torch

from tests.labs.lightning_scripts import Script
from traintrace import facts


def _steps_ms(run: Any) -> float:
    """Give the time inside all steps: their rows without what lay between them."""
    between = sum(span.ns for span in run.rank.spans if not span.inside)
    return (run.rank.totals.wall_ns - between) / 1e6


def test_l01_one_step_time_equals_the_sum_of_its_parts(lab: Any) -> None:
    """PL#4937: the time of a batch and the sum of its parts disagreed, and none was a step."""

    class Model(lab.Model):  # type: ignore[misc]
        def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
            lab.work("h2d", 2)
            return batch

    run = lab.fit(Model(), lab.loader(20))
    run.check_books()
    run.check_truth("input_wait", "h2d", "forward", "backward", "optimizer")
    assert len(run.steps["step"]) == 20
    phases = ("input_wait", "h2d", "forward", "backward", "optimizer")
    parts = {name: run.column_ms(name) for name in phases}
    for account, least in zip(phases, (5, 2, 3, 4, 2), strict=True):
        assert min(parts[account]) >= least, account


def test_l02_phases_are_disjoint_and_the_update_holds_no_forward(lab: Any) -> None:
    """PL#6405: rows that contain each other, and percentages far above a hundred."""
    run = lab.fit(lab.Model(), lab.loader(10, 0))
    run.check_books()
    shares = [ns / run.rank.totals.wall_ns for ns in run.rank.totals.account_ns.values()]
    assert sum(shares) == pytest.approx(1)
    # The update takes 2 ms; the call that Lightning makes of it holds 7 ms of the model besides.
    assert 2 <= min(run.column_ms("optimizer")) < 2 + 7
    run.check_truth("forward", "backward", "optimizer")


def test_l03_the_whole_run_is_covered_and_the_rest_has_names(lab: Any) -> None:
    """PL#4672: the profiler's total lay far below the wall clock, and nothing said what was missing."""

    class Slow(lab.pl.Callback):  # type: ignore[misc]
        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            lab.work("callbacks", 200)

    class Model(lab.Model):  # type: ignore[misc]
        def setup(self, stage: str) -> None:
            lab.work("startup", 30)

        def on_train_epoch_end(self) -> None:
            lab.work("callbacks", 100)

    run = lab.fit(Model(), lab.loader(10), callbacks=[Slow()])
    run.check_books()
    run.check_truth("callbacks", "startup")
    wall = run.callback.summary()["wall"]
    assert sum(wall["accounts_ns"].values()) == wall["total_ns"]
    assert _steps_ms(run) < wall["total_ns"] / 1e6 - 330


def test_l04_every_wait_is_seen_while_training_and_afterwards(lab: Any) -> None:
    """PL#2369, PL#13095: no way to see the wait for each batch without wrapping the loader."""
    live = []

    class Items(lab.Items):  # type: ignore[misc]
        def __getitem__(self, index: int) -> Any:
            if index % 10 == 9:
                lab.work("input_wait", 80)
            return torch.zeros(4)

    class Model(lab.Model):  # type: ignore[misc]
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if batch_idx == 15:
                live.append(self.trainer.callbacks[0].summary()["series"])

    run = lab.fit(Model(), torch.utils.data.DataLoader(Items(20)))
    waits = run.column_ms("input_wait")
    assert len(waits) == 20
    assert min(waits[9], waits[19]) >= 80
    assert statistics.median(waits) < 40
    assert len(live[0]["step"]) == 15
    assert live[0]["input_wait_ms"][9] >= 80


def test_l05_what_starting_an_epoch_costs_is_told_apart_from_the_wait(lab: Any) -> None:
    """PL#10389: ten dead seconds between epochs of four, while workers started."""
    code = """
        def start(worker):
            time.sleep(0.15)

        trainer(max_epochs=3).fit(Model(), loader(8, num_workers=2, worker_init_fn=start))
    """
    run = Script(lab.folder, code)
    run.run()
    (rank,) = run.ranks()
    rank.check_books()
    first, waits = rank.flagged(facts.EPOCH_FIRST), rank.column_ms("input_wait")
    assert first == ([True] + [False] * 7) * 3
    making = {
        span.step: span.ns / 1e6 for span in rank.rank.spans if span.account == "epoch_boundary"
    }
    for row in (0, 8, 16):
        assert making[row + 1] + waits[row] >= 100  # workers start while the loop goes on
        assert waits[row] > statistics.median(waits[row + 2 : row + 8])
    (finding,) = [each for each in _findings(run) if each["kind"] == "EPOCH_START_COST"]
    assert finding["evidence"]["starts_count"] == 3
    assert finding["cost_s"] >= 0.3


def _findings(script: Script) -> Any:
    (folder,) = script.run_dir.iterdir()
    return json.loads((folder / "final_summary.json").read_text("utf-8"))["findings"]


def test_l06_workers_that_import_the_script_again_leave_no_trace(lab: Any) -> None:
    """PL#18862: the spawn method imports the script anew for every worker, at each loop's start."""
    code = """
        callback = TraceCallback(run_dir=os.environ["RUN_DIR"], print_report=False)

        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                if torch.utils.data.get_worker_info() is not None:
                    from traintrace.registry import REGISTRY
                    assert REGISTRY.current() is None
                    assert "traintrace" not in torch.autograd.backward.__module__
                    assert not hasattr(torch.autograd.backward, "__traintrace_done__")
                return torch.ones(4)

        if __name__ == "__main__":
            data = torch.utils.data.DataLoader(
                Items(), num_workers=1, multiprocessing_context="spawn", persistent_workers=True)
            pl.Trainer(callbacks=[callback], accelerator="cpu", max_epochs=2, logger=False,
                       enable_checkpointing=False, enable_progress_bar=False).fit(Model(), data)
    """
    script = Script(lab.folder, code)
    run = script.run()  # reads the one run that there may be
    assert [rank.totals.steps for rank in run.ranks] == [8]
    (folder,) = script.run_dir.iterdir()
    assert [path.name for path in (folder / "ranks").iterdir()] == ["rank-00000.sqlite"]


def test_l07_the_rate_leaves_out_validation_and_is_not_of_one_epoch(lab: Any) -> None:
    """PL#12787: the time of all epochs, with validation in it, was divided by one epoch's steps."""

    class Model(lab.Model):  # type: ignore[misc]
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            lab.work("evaluation", 200)

    run = lab.fit(
        Model(), lab.loader(10, 11), lab.evaluation_loader(), max_epochs=2, num_sanity_val_steps=0
    )
    run.check_books()
    run.check_truth("evaluation")
    rate = run.callback.summary()["throughput"]["steps_per_s"]
    # 11 + 3 + 4 + 2 = 20 ms a step; validation would add another 40 to each.
    assert 0.6 * 20e3 / _steps_ms(run) < rate["step"] <= 50
    assert rate["round_trip"] < 25


def test_l10_samples_of_every_micro_batch_count(lab: Any) -> None:
    """PL#19461, PL#19470: a monitor that could not count under accumulation."""
    run = lab.fit(lab.Model(), lab.loader(48, 2, batch_size=4), accumulate_grad_batches=3)
    run.check_books()
    summary = run.callback.summary()
    assert run.steps["samples"] == [12] * 4
    counts = summary["counts"]
    assert (counts["samples"], counts["micro_batches"], counts["steps"]) == (48, 12, 4)
    # A step takes three times 8 + 3 + 4 ms and 2 for the update.
    rates = summary["throughput"]
    assert rates["samples_per_s"]["step"] == pytest.approx(12 * rates["steps_per_s"]["step"])
    assert rates["samples_per_s"]["step"] <= 12 / 0.047
