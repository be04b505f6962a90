"""From a real loop to its MFU: known work, counted where it ran, over a wall time that is known to the nanosecond."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tests.labs.counted import no_graphs, random_batches, train, two_layers, two_layers_flops
from traintrace import accounts, open_run
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.pytorch.backward import trace_backward
from traintrace.pytorch.flops import StepFlopCounter
from traintrace.pytorch.forward import trace_forward
from traintrace.runs.folder import Run
from traintrace.session import Session
from traintrace.testing.clock import FakeClock
from traintrace_analysis import REQUIRED_COLUMNS, analyse
from traintrace_analysis.efficiency import EfficiencyBudget
from traintrace_reporting.cli import main
from traintrace_reporting.finish import summarise_run

__all__ = ["no_graphs"]

MS = 1_000_000
PEAK_TFLOPS = 1e-4


def budget_of(run: Run) -> EfficiencyBudget:
    budget = analyse(run.facts(REQUIRED_COLUMNS)).efficiency
    assert budget is not None
    assert sum(budget.lines_ns.values()) == budget.total_ns
    return budget


@pytest.mark.parametrize("accumulate", [1, 4])
def test_mfu_is_exact_on_a_clock_that_is_known(tmp_path: Path, accumulate: int) -> None:
    """Micro-batches of 4, 8, 12, ... samples: 3 ms in forward, 5 in backward, 2 in the request for each."""
    clock, model = FakeClock(), two_layers()
    options = TraceOptions(run_dir=tmp_path, flops_per_step="count", peak_tflops=PEAK_TFLOPS)
    plugin = PluginIdentity("test", "0", "none", "0")
    session = Session(options, plugin, Ports(flops=StepFlopCounter()), now=clock)
    for installed in (trace_forward(session.journal, [model]), trace_backward(session.journal)):
        for undo in installed:
            session.undo.callback(undo)
    session.begin()
    model[0].register_forward_hook(lambda *args: clock.advance(3 * MS))  # type: ignore[index]
    model[2].register_full_backward_hook(lambda *args: clock.advance(5 * MS))  # type: ignore[index]
    sizes = [4 * (1 + number % 3) for number in range(10 * accumulate)]
    for number, batch in enumerate(random_batches(*sizes), 1):
        session.journal.write(accounts.INPUT_WAIT)
        clock.advance(2 * MS)
        session.journal.write(~accounts.INPUT_WAIT)
        session.capture.micro_batches += 1
        session.capture.count(samples=len(batch))
        model(batch).mean().backward()
        if number % accumulate == 0:
            session.capture.complete()
    clock.advance(100 * MS)
    session.finish("completed")
    budget = budget_of(session.as_run())
    wall_ns = 10 * accumulate * (2 + 3 + 5) * MS + 100 * MS
    assert budget.total_ns == wall_ns
    flops = two_layers_flops(sum(sizes))
    assert budget.work is not None
    assert (budget.work.convention, budget.work.total) == ("counted", flops)
    useful_ns = round(flops / (PEAK_TFLOPS * 1e3))
    assert budget.lines_ns["useful_compute"] == useful_ns
    assert budget.mfu == useful_ns / wall_ns
    assert budget.lines_ns["input_wait"] == 10 * accumulate * 2 * MS
    assert budget.lines_ns["shutdown"] == 100 * MS
    assert budget.lines_ns["compute_overhead"] == 10 * accumulate * 8 * MS - useful_ns


def test_a_loop_of_one_line_more_has_an_mfu(tmp_path: Path) -> None:
    ran = train(tmp_path, two_layers, random_batches(*(4,) * 20), peak_tflops=PEAK_TFLOPS)
    assert ran.folder is not None
    budget = budget_of(open_run(ran.folder))
    assert budget.work is not None
    assert budget.work.total == 20 * two_layers_flops(4)
    assert "flop_counting" in budget.lines_ns
    assert budget.mfu == pytest.approx(20 * two_layers_flops(4) / 1e8 / (budget.total_ns / 1e9))


def test_the_peak_can_be_given_when_the_report_is_made(tmp_path: Path) -> None:
    ran = train(tmp_path, two_layers, random_batches(*(4,) * 12))
    assert ran.folder is not None
    budget = budget_of(open_run(ran.folder))
    assert budget.mfu is None
    assert "give peak_tflops" in budget.reason
    slow = summarise_run(ran.folder, peak_tflops=1e-12)
    assert any("impossible" in warning for warning in slow["warnings"])
    told = CliRunner().invoke(main, ["report", str(ran.folder), "--peak-tflops", "1e-12", "--json"])
    assert told.exit_code == 0
    assert "impossible" in told.output


@pytest.mark.parametrize("peak", ["0", "-1", "nan", "inf", "-inf", "1e31", "fast", ""])
def test_a_peak_that_is_none_is_an_error_of_usage(tmp_path: Path, peak: str) -> None:
    for command in (["report", str(tmp_path)], ["run"]):
        told = CliRunner().invoke(
            main, [*command, "--peak-tflops", peak, "x.py"][: len(command) + 3]
        )
        assert told.exit_code == 2
        assert f"{peak!r}: use a number above 0 in 1e12 operations a second" in told.output


def test_the_model_and_its_devices_names_reach_the_budget(tmp_path: Path) -> None:
    torch.manual_seed(0)
    ran = train(tmp_path, two_layers, random_batches(*(4,) * 12), flops_per_step=5e6)
    assert ran.folder is not None
    budget = budget_of(open_run(ran.folder))
    assert budget.work is not None
    assert (budget.work.convention, budget.flops_per_step) == ("given", 5e6)
    assert "no peak of this processor" in budget.reason
