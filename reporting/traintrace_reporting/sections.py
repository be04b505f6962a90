"""The measured sections of `final_summary.json`: names are public, numbers are passed on."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from traintrace_analysis import Analysis
from traintrace_analysis.machine import Memory, ProcessSummary, SystemSummary, Worst
from traintrace_analysis.measured_range import MeasuredRange
from traintrace_analysis.model import Metric, MetricStatistics, WallLedger
from traintrace_analysis.rank_comparison import RankComparison
from traintrace_analysis.step_window import StepWindow

Json: TypeAlias = dict[str, Any]


def wall(ledger: WallLedger | None) -> Json | None:
    """Give the ledger of the representative rank, and the accounts of the others."""
    if ledger is None:
        return None
    return {
        "clock": "host",
        "rank": ledger.rank,
        "attempt": ledger.attempt,
        "total_ns": ledger.total_ns,
        "accounts_ns": dict(ledger.accounts_ns),
        "groups_ns": dict(ledger.groups_ns),
        "by_rank": {str(rank): dict(accounts) for rank, accounts in ledger.by_rank.items()},
    }


def step_time(analysis: Analysis) -> Json:
    """Give the window and the metrics of its steps."""
    return _step_time(analysis.window, analysis.warmup_ms, analysis.metrics)


def _step_time(window: StepWindow, warmup_ms: float | None, metrics: Mapping[str, Metric]) -> Json:
    steps = window.steps
    return {
        "unit": "ms",
        "clock": window.clock,
        "window": {
            "start_step": int(steps[0]) if len(steps) else None,
            "end_step": int(steps[-1]) if len(steps) else None,
            "steps": len(steps),
            "warmup_steps": window.warmup_steps,
            "warmup_ms": warmup_ms,
        },
        "metrics": {name: _metric(metric) for name, metric in metrics.items()},
    }


def measured_range(measured: MeasuredRange) -> Json:
    """Give the steps that a guard measures, as the sections `step_time` and `statistics` give the window."""
    return {
        "reason": measured.missing,
        "step_time": _step_time(measured.window, 0.0, measured.metrics),
        "statistics": all_statistics(measured.statistics),
    }


def all_statistics(described: Mapping[str, MetricStatistics]) -> Json:
    """Give what a comparison needs to know of every measured metric."""
    return {
        "unit": "ms",
        "metrics": {name: statistics(one) for name, one in described.items()},
    }


def _metric(metric: Metric) -> Json:
    return {
        "clock": metric.clock,
        "mean": metric.mean_ms,
        "std": metric.std_ms,
        "median": metric.median_ms,
        "p95": metric.p95_ms,
        "p99": metric.p99_ms,
        "min": metric.min_ms,
        "max": metric.max_ms,
        "share": metric.share,
        "by_rank": {str(rank): mean for rank, mean in metric.by_rank.items()},
        "worst": metric.worst_ms,
        "worst_rank": metric.worst_rank,
        "representative_rank": metric.representative_rank,
        "skew": metric.skew,
        "host_mean": metric.host_mean_ms,
        "device_mean": metric.device_mean_ms,
        "n": metric.n,
        "ranks_measured": metric.ranks_measured,
        "start": metric.start_ms,
        "end": metric.end_ms,
        "drift": metric.drift_ms,
        "tail": None if metric.tail is None else asdict(metric.tail),
    }


def statistics(one: MetricStatistics) -> Json:
    """Give what a comparison needs to know of one metric."""
    return {
        "rank": one.rank,
        "log_mean": one.log_mean,
        "log_sd": one.log_sd,
        "tau": one.tau,
        "n_effective": one.n_effective,
        "block_steps": one.block_steps,
        "block_means": list(one.block_means_ms),
    }


def memory(measured: Memory | None) -> Json | None:
    """Give the largest memory readings, their ranks, and those of every rank."""
    if measured is None:
        return None
    rss = {
        "max": measured.rss_max_bytes,
        "max_rank": measured.rss_max_rank,
        "last": measured.rss_last_bytes,
        "by_rank": _by_rank(measured.rss_by_rank),
    }
    return {
        "rss_bytes": None if measured.rss_max_bytes is None else rss,
        "peak_allocated_bytes": _peak(
            measured.peak_allocated_max_bytes,
            measured.peak_allocated_max_rank,
            measured.peak_allocated_by_rank,
        ),
        "peak_reserved_bytes": _peak(
            measured.peak_reserved_max_bytes,
            measured.peak_reserved_max_rank,
            measured.peak_reserved_by_rank,
        ),
    }


def _peak(most: int | None, rank: int | None, by_rank: Mapping[int, int | None]) -> Json | None:
    if most is None:
        return None
    return {"max": most, "max_rank": rank, "by_rank": _by_rank(by_rank)}


def system(measured: SystemSummary | None) -> Json | None:
    """Give the nodes, their devices, and the worst of each with its rank."""
    if measured is None:
        return None
    return {
        "nodes": [asdict(node) for node in measured.nodes],
        "devices": [asdict(device) for device in measured.devices],
        "ram_used_worst_share": _worst(measured.ram_used_worst),
        "utilisation_worst_share": _worst(measured.utilisation_worst),
        "memory_used_worst_share": _worst(measured.memory_used_worst),
        "temperature_worst_c": _worst(measured.temperature_worst_c),
        "throttled_worst_share": _worst(measured.throttled_worst),
    }


def process(measured: ProcessSummary | None) -> Json | None:
    """Give the process of every rank, and the worst of each with its rank."""
    if measured is None:
        return None
    return {
        "by_rank": {str(rank): asdict(one) for rank, one in measured.by_rank.items()},
        "tree_rss_worst_bytes": _worst(measured.tree_rss_worst_bytes),
        "cpu_worst_cores": _worst(measured.cpu_cores_worst),
        "run_queue_worst_share": _worst(measured.run_queue_worst),
        "throttled_worst_s": _worst(measured.throttled_worst_s),
    }


def ranks(compared: RankComparison | None) -> Json | None:
    """Give the ranks against each other."""
    if compared is None:
        return None
    return {
        "clock": compared.clock,
        "backward_split": compared.backward_split,
        "by_rank": {str(rank): asdict(work) for rank, work in compared.by_rank.items()},
        "by_node": {str(node): asdict(one) for node, one in compared.by_node.items()},
        "left_out": {str(rank): why for rank, why in compared.left_out.items()},
    }


def _by_rank(values: Mapping[int, int | None]) -> Json:
    return {str(rank): value for rank, value in values.items()}


def _worst(worst: Worst | None) -> Json | None:
    return None if worst is None else {"value": worst.value, "rank": worst.rank}
