"""How far each signal was measured, and what of the job was not seen at all."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from traintrace.facts import RunFacts
from traintrace_analysis.machine import Memory, ProcessSummary, SystemSummary
from traintrace_analysis.model import Counts, Coverage, Metric
from traintrace_analysis.rank_comparison import RankComparison
from traintrace_analysis.reading_columns import unread
from traintrace_analysis.rules.ranks.wording import ranks_text
from traintrace_analysis.step_window import Floats, StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wall import imbalances
from traintrace_analysis.window import attempt_ranks
from traintrace_analysis.wording import count

_NO_SAMPLES = "the sizes of the batches are not known"
_NO_TOKENS = "the batches hold no attention mask on the CPU to count tokens by"
# Why a lens has nothing to say.
_NO_LENS: Final = {
    "communication": "one rank trains, and no trace of a profiler was given",
    "convergence": "nothing was logged; see traintrace.log",
    "efficiency": "the operations of a step or the device's peak are not known; see flops_per_step",
    "stages": "no stage was marked; see traintrace.stage",
}


def measure_coverage(
    window: StepWindow,
    metrics: dict[str, Metric],
    memory: Memory | None,
    counts: Counts,
    ranks: RankComparison | None,
    system: SystemSummary | None,
    process: ProcessSummary | None,
    lenses: Mapping[str, object | None],
) -> dict[str, Coverage]:
    """Give the coverage of every metric, of the work counted, of memory and of the sections.

    Sections of the summary have a prefix: "communication" is an account as well. `lenses` are those that
    were looked through, by name; None if there was nothing to see.
    """
    coverage = {
        name: _matrix_coverage(window, window.steady(name), window.reasons.get(name))
        for name in metrics
    }
    first = window.warmup_steps
    coverage["samples"] = _matrix_coverage(window, window.samples[:, first:], _NO_SAMPLES)
    coverage["tokens"] = _matrix_coverage(window, window.tokens[:, first:], _NO_TOKENS)
    on_device = window.clock == "device"
    coverage["device_clock"] = Coverage(
        "measured" if on_device else "not_measured",
        len(window.ranks) if on_device else 0,
        window.steady_steps if on_device else 0,
        None if on_device else _no_device_clock(window),
    )
    coverage["peak_memory"] = _memory_coverage(
        window,
        memory is not None and memory.peak_allocated_max_bytes is not None,
        "no device memory",
    )
    coverage["memory"] = _memory_coverage(window, memory is not None, "no memory was read")
    coverage["rss"] = _memory_coverage(
        window,
        memory is not None and memory.rss_max_bytes is not None,
        "no resident memory was read",
    )
    for name, found in lenses.items():
        coverage[f"section.{name}"] = (
            Coverage("not_measured", 0, 0, _NO_LENS[name])
            if found is None
            else Coverage("measured", len(window.ranks), window.steady_steps, None)
        )
    coverage["section.system"] = _system_coverage(window, system)
    coverage["section.process"] = _process_coverage(window, process)
    coverage["section.memory"] = coverage["memory"]
    coverage["section.ranks"] = _rank_coverage(window, ranks)
    lost = "a step that a process had not yet written when it ended leaves no count"
    coverage["steps_unpublished"] = (
        Coverage("not_measured", 0, 0, lost)
        if counts.steps_unpublished is None
        else Coverage("measured", len(window.ranks), len(window.steps), None)
    )
    return coverage


def collect_warnings(facts: RunFacts, window: StepWindow) -> tuple[str, ...]:
    """Give what the reader must know about the data: faults, silent ranks, lost rows."""
    ranks = attempt_ranks(facts, window.attempt)
    warnings = [*facts.warnings]
    warnings += [f"rank {rank.rank}: {text}" for rank in ranks for text in rank.warnings]
    # A rank without any record is no warning: the ranks that were seen, and a finding, tell of it.
    silent = [rank.rank for rank in ranks if rank.rank not in window.ranks]
    if silent:
        warnings.append(f"no completed step from {ranks_text(silent)}")
    dropped = sum(rank.totals.dropped_rows for rank in ranks)
    if dropped:
        warnings.append(
            f"{count(dropped, 'step')} counted in the totals only, because the recorder fell behind"
        )
    given_up = {rank.totals.steps_abandoned for rank in ranks}
    if len(given_up) > 1:
        warnings.append(
            f"the ranks started over after {min(given_up)} to {max(given_up)} steps each: steps of one "
            "number are not of the same update on all of them"
        )
    return tuple(dict.fromkeys([*warnings, *imbalances(ranks)]))


def _matrix_coverage(window: StepWindow, matrix: Floats | None, reason: str | None) -> Coverage:
    if matrix is None or not matrix.size:
        return Coverage("not_measured", 0, 0, reason or "no step was measured")
    counts = (~np.isnan(matrix)).sum(axis=1)
    needed = max(1.0, limit("coverage_minimum") * matrix.shape[1])
    measured = counts >= needed
    if not measured.any():
        little = reason or "measured on fewer than 95 % of the steps"
        return Coverage("not_measured", 0, int(counts.max()), little)
    ranks, steps = int(measured.sum()), int(counts[measured].min())
    if ranks == len(window.expected_ranks):
        return Coverage("measured", ranks, steps, None)
    return Coverage(
        "partial", ranks, steps, f"measured on {ranks} of {len(window.expected_ranks)} ranks"
    )


def _rank_coverage(window: StepWindow, ranks: RankComparison | None) -> Coverage:
    expected = len(window.expected_ranks)
    if ranks is None:
        lone = "one rank has no other to be compared with"
        few = "fewer than two ranks have steps with the same phases measured"
        return Coverage("not_measured", 0, 0, lone if expected < 2 else few)
    compared = len(ranks.by_rank)
    if compared == expected:
        return Coverage("measured", compared, window.steady_steps, None)
    whys = [f"rank {rank}: {why}" for rank, why in list(ranks.left_out.items())[:3]]
    reason = "; ".join([f"{compared} of {expected} ranks compared", *whys])
    return Coverage("partial", compared, window.steady_steps, reason)


def _system_coverage(window: StepWindow, system: SystemSummary | None) -> Coverage:
    """A node is read by one of its ranks, so all ranks of a node that was read count."""
    if system is None:
        return Coverage("not_measured", 0, 0, unread(window.facts, "system"))
    nodes = {one.node for one in system.nodes}
    read = sum(rank.node in nodes for rank in window.facts)
    return _reading_coverage(window, read, "the nodes of")


def _process_coverage(window: StepWindow, process: ProcessSummary | None) -> Coverage:
    if process is None:
        return Coverage("not_measured", 0, 0, unread(window.facts, "process"))
    return _reading_coverage(window, len(process.by_rank), "the processes of")


def _reading_coverage(window: StepWindow, read: int, what: str) -> Coverage:
    expected = len(window.expected_ranks)
    if read >= expected:
        return Coverage("measured", read, window.steady_steps, None)
    reason = f"{what} {read} of {expected} ranks were read"
    return Coverage("partial", read, window.steady_steps, reason)


def _memory_coverage(window: StepWindow, there: bool, reason: str) -> Coverage:
    if there:
        return Coverage("measured", len(window.ranks), len(window.steps), None)
    return Coverage("not_measured", 0, 0, reason)


def _no_device_clock(window: StepWindow) -> str:
    if not window.accelerator:
        return "no device with a clock of its own"
    return "device times cover fewer than 95 % of the steps of every rank and phase"
