"""R01 to R08: what counts as train time, clocks that do not mix, and what an older or partial run does not know."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.cases.reports.clocked import STEP, Clocked
from tests.cases.reports.commands import THRESHOLD, command, content, named, page, written
from tests.labs.guarded import CONTRACT, make_summary
from tests.labs.older import as_version_0_1
from tests.labs.torch_loop import BATCH, Net, sgd, trained
from tests.scenarios.fleet import Fleet
from tests.scenarios.readings import Gauges
from tests.scenarios.writing import write_job
from traintrace.testing import FakeClock, SimulatedDevice


def test_r01_longer_validation_moves_no_train_number(clocked: Clocked) -> None:
    """composer#984, #1053: bigger validation images made "train time" 8 % longer."""
    places = [
        clocked.train(name, between={10 * n: ("evaluating", 10 * item_ms) for n in range(1, 6)})
        for name, item_ms in (("short", 1.0), ("long", 100.0))
    ]
    short, long = (content("report", place) for place in places)
    for name, metric in short["step_time"]["metrics"].items():
        if metric["mean"] is not None:
            again = long["step_time"]["metrics"][name]["mean"]
            assert again == pytest.approx(metric["mean"], rel=0.03), name
    rates = [one["throughput"]["samples_per_s"]["step"] for one in (short, long)]
    assert rates[1] == pytest.approx(rates[0], rel=0.03)
    compared = content("compare", *places)
    assert named(compared["metrics"], "step_time")["judged"] not in ("regressed", "improved")
    # What did become longer has its own name, and is all of it: 5 x 990 ms over 60 steps.
    longer = compared["phases"][0]
    assert (longer["name"], longer["place"]) == ("evaluation", "between")
    assert longer["difference_s"] == pytest.approx(5 * 0.99 / 60, rel=1e-6)


def test_r02_samples_a_second_do_not_depend_on_how_a_batch_is_split(clocked: Clocked) -> None:
    """composer#271, DeepSpeed#2498, nerfstudio#2354: the rate was divided by the accumulation."""
    whole = clocked.train("whole", batch_size=32)
    split = clocked.train("split", batch_size=8, micro_batches=4)
    rates = [content("report", run)["throughput"]["samples_per_s"] for run in (whole, split)]
    for name in ("step", "round_trip"):
        assert rates[0][name] == pytest.approx(32 / 12e-3, rel=0.02)
        assert rates[1][name] == pytest.approx(rates[0][name], rel=0.05)
    assert content("report", split)["counts"]["micro_batches"] == 4 * 60
    compared = content("compare", whole, split)
    assert named(compared["figures"], "samples_per_s.step")["ratio"] == pytest.approx(1, abs=0.05)
    assert any("accumulation: 1 in A, 4 in B" in told for told in compared["warnings"])


def test_r03_the_rate_of_steps_and_that_of_the_round_trip_are_both_told_and_labelled(
    clocked: Clocked,
) -> None:
    """composer#1977: the save and what came later were missing from the speed."""
    pauses = dict.fromkeys(range(1, 11), ("checkpointing", 50.0))
    run = clocked.train("saves", {**STEP, "forward": 42.0}, steps=10, cv=0.0, between=pauses)
    rates = content("report", run)["throughput"]
    assert rates["steps_per_s"]["step"] == pytest.approx(1 / 0.050)
    assert rates["steps_per_s"]["round_trip"] == pytest.approx(1 / 0.100)
    told = page("report", run)
    assert "20.0 steps/s · 160 samples/s within steps" in told
    assert "10.0 steps/s · 80.0 samples/s with what lies between" in told


class QueuedDevice:
    """A device with a clock of its own that works 10 ms a step, while the host only queues work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
        self.clock, self.device = clock, SimulatedDevice(clock)
        seam = "traintrace_plain_torch.seams.device_clock"
        monkeypatch.setattr(seam, lambda: (self.device, None))

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(40):
            self.device.finish_all()
            self.clock.advance(1_000_000)
            yield BATCH
        self.device.finish_all()

    def train(self, folder: Path, name: str, level: str) -> Path:
        model = Net()
        optimizer = sgd(model)
        model.register_forward_pre_hook(lambda *_: self.device.launch(10_000_000))

        def step(batch: torch.Tensor) -> None:
            loss = model(batch).mean()
            self.clock.advance(100_000)
            loss.backward()
            optimizer.step()

        return trained(folder, model, optimizer, step, self, name=name, level=level).folder


def test_r05_device_time_is_not_held_against_host_time(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TML#327, #328: the device's time of one run against the host's of the other."""
    queued = QueuedDevice(monkeypatch, clocked.clock)
    places = [queued.train(clocked.folder, level, level) for level in ("full", "host")]
    told = content("compare", *places)
    assert [one["clock"] for side in "ab" for one in told[side]] == ["device", "host"]
    assert told["verdict"] == "INCOMPARABLE"
    assert "clock" in told["headline"]
    assert all(one["difference_ms"] is one["ratio"] is None for one in told["metrics"])
    assert told["phases"] == []


def test_r05_no_threshold_is_decided_over_two_clocks(tmp_path: Path) -> None:
    phases = {"forward": 4.0, "backward": 6.0, "optimizer": 1.0}
    made = (
        make_summary("host", contract=CONTRACT),
        make_summary("device", contract=CONTRACT, device_ms=phases),
    )
    places = [written(tmp_path / f"{one['run']['name']}.json", one) for one in made]
    result = command("compare", *places, THRESHOLD, 5)
    assert result.exit_code == 3, result.output
    assert "no common clock" in " ".join(result.stdout.split())


def test_r06_a_file_of_an_older_schema_without_a_phase_is_shown_and_the_phase_is_named(
    clocked: Clocked, tmp_path: Path
) -> None:
    """TML#185: the bar dropped a part of an older file, and shares came to more than 100 %."""
    old = as_version_0_1(content("report", clocked.train("old", steps=40)))
    metric = old["step_time"]["metrics"]["input_wait"]
    metric |= {name: None for name, value in metric.items() if isinstance(value, float)}
    metric |= {"by_rank": {}, "worst_rank": None, "n": 0, "ranks_measured": 0}
    told = page("report", written(tmp_path / "old.json", old))
    assert "input_wait not measured" in told
    # The parts that are there keep their shares of the whole step, of which the missing one had 8.3 %.
    _, table = told.split("One step", 1)
    shares = [_share_of(name, table) for name in ("forward", "backward", "optimizer", "residual")]
    assert shares == pytest.approx([33.3, 50.0, 8.3, 0.0], abs=0.2)
    chart = [float(share) for share in re.findall(r"([\d.]+) %", told.split("One step")[0])]
    assert max(chart) <= 100.0
    del old["step_time"]["metrics"]["input_wait"]
    refused = command("report", written(tmp_path / "torn.json", old))
    assert refused.exit_code == 1
    assert "torn.json" in refused.stderr
    assert "input_wait" in refused.stderr


def _share_of(name: str, table: str) -> float:
    found = re.search(rf" {name} (?:[\d.]+ )+%", table)
    assert found is not None, table
    return float(found[0].split()[-2])


def test_r07_an_absent_phase_is_unknown_and_its_time_is_nobodys(clocked: Clocked) -> None:
    """TML#188: a missing forward became residual time, and the verdict said so."""
    slow = {**STEP, "forward": 30.0}
    seen, unseen = clocked.train("seen", slow), clocked.train("unseen", slow, follow=False)
    summary = content("report", unseen)
    assert summary["step_time"]["metrics"]["forward"]["mean"] is None
    assert summary["coverage"]["forward"]["reason"]
    assert "RESIDUAL_HEAVY" not in {found["kind"] for found in summary["findings"]}
    assert "forward not measured" in page("report", unseen)
    compared = content("compare", seen, unseen)
    for name in ("forward", "residual", "other"):
        row = named(compared["metrics"], name)
        assert (row["judged"], row["difference_ms"]) == ("unknown", None), name
    assert named(compared["phases"], "other")["judged"] == "unknown"
    assert compared["verdict"] in ("EQUIVALENT", "INCONCLUSIVE")


def test_r08_all_sections_are_of_one_window_and_the_length_is_from_start_to_stop(
    tmp_path: Path,
) -> None:
    """TML#391: sections covered different parts of a run, and a part was shown as its length."""
    # 20 s of loading, 100 steps in 5 s, 10 s of saving; the machine is read once a second.
    busy = {"cpu_cores": lambda done: 2.0 if 20 <= 35 * done <= 25 else 30.0}
    fleet = Fleet(steps=100, step={"forward": 20.0, "backward": 30.0}, noise=0.0)
    fleet.gauges = Gauges(system=busy, process=busy)
    fleet.before["startup"][:, 0] = 20_000.0
    fleet.after_ms["shutdown"] = 10_000.0
    run = write_job(fleet.job(), tmp_path, "loads-trains-saves")
    for steps in (100, 40):
        summary = content("report", run, "--window", steps)
        window = summary["step_time"]["window"]
        assert (window["end_step"], window["steps"]) == (100, steps)
        assert summary["series"]["step"] == list(range(101 - steps, 101))
        (node,) = summary["system"]["nodes"]
        process = summary["process"]["by_rank"]["0"]
        for read in (node, process):
            assert read["cpu_cores_mean"] == pytest.approx(2.0, rel=0.05), "of these steps alone"
            assert read["cpu_cores_max"] == pytest.approx(30.0, rel=0.05), "of the whole run"
        assert summary["run"]["duration_s"] == pytest.approx(35.0, abs=0.01)
        assert summary["wall"]["total_ns"] == sum(summary["wall"]["accounts_ns"].values())
        assert summary["wall"]["total_ns"] == pytest.approx(35e9, rel=1e-3)
