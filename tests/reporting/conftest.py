"""Sample summaries: what `final_summary.json` holds after runs that readers will meet."""

import copy
import io
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from traintrace.facts import Environment
from traintrace.runs.manifest import Manifest
from traintrace_analysis.machine import DeviceSummary, NodeSummary
from traintrace_reporting.terminal import print_report

Summary = dict[str, Any]

# Seconds of one small run on a CPU: 900 steps of the digits example with augmentation in the loader.
_ACCOUNTS_S = {
    "input_wait": 7.264_318_402,
    "batch_prep": 0.018_204_911,
    "forward": 0.551_870_220,
    "backward": 0.934_411_873,
    "optimizer": 0.498_120_447,
    "callbacks": 0.013_377_020,
    "other": 0.062_918_345,
    "startup": 0.281_442_106,
    "epoch_boundary": 0.024_611_730,
    "evaluation": 0.402_118_937,
    "checkpoint": 0.036_220_415,
    "gap": 0.097_553_608,
    "shutdown": 0.008_114_302,
}
_METRICS_MS: dict[str, tuple[float | None, ...]] = {
    "step_time": (10.41, 10.38, 12.96, 1.0),
    "traced_step_time": (2.31, 2.31, 2.71, 0.223),
    "h2d": (None, None, None, None),
    "input_wait": (8.06, 8.07, 10.52, 0.777),
    "forward": (0.604, 0.613, 0.731, 0.059),
    "backward": (1.031, 1.038, 1.214, 0.1),
    "optimizer": (0.549, 0.553, 0.617, 0.053),
    "residual": (0.101, 0.105, 0.142, 0.010),
    "compute": (2.19, 2.2, 2.6, 0.212),
    "batch_prep": (0.02, 0.02, 0.03, 0.002),
    "gradient_sync": (None, None, None, None),
    "communication": (None, None, None, None),
    "clip": (None, None, None, None),
    "callbacks": (0.014, 0.015, 0.02, 0.001),
    "user": (None, None, None, None),
    "other": (0.067, 0.07, 0.09, 0.007),
}


@pytest.fixture
def input_bound() -> Summary:
    """A completed run on a CPU that spends most of its time waiting for data."""
    return _input_bound()


@pytest.fixture
def many_ranks() -> Summary:
    """A run of eight GPUs on two nodes, of which one rank left no record."""
    summary = _input_bound()
    summary["run"].update(
        world_size=8, ranks_seen=[0, 1, 2, 3, 4, 5, 7], nodes={"expected": 2, "seen": 2}
    )
    summary["setup"].update(
        strategy="ddp",
        device={"kind": "cuda", "name": "NVIDIA H100 80GB HBM3", "count": 8},
        precision="bf16",
    )
    summary["wall"]["rank"] = 3
    for metric in summary["step_time"]["metrics"].values():
        if metric["median"] is not None:
            metric.update(worst=metric["median"] * 1.2, worst_rank=3, skew=0.2, ranks_measured=7)
    summary["ranks"] = {
        "clock": "device",
        "backward_split": True,
        "by_rank": {
            str(rank): {
                "own_ms": 10.0 + 2.0 * (rank == 3),
                "waiting_ms": 2.5 - 2.0 * (rank == 3),
                "excess_ms": 2.0 * (rank == 3),
                "excess_share": 0.16 * (rank == 3),
                "last_share": 1.0 * (rank == 3),
                "node": rank // 4,
            }
            for rank in (0, 1, 3, 4, 5, 7)
        },
        "by_node": {},
        "left_out": {"2": "backward was not measured"},
    }
    peak = {"max": 42_900_000_000, "max_rank": 3, "by_rank": {}}
    summary["memory"] = {
        "rss_bytes": {"max": 3_220_000_000, "max_rank": 5, "last": 3_000_000_000, "by_rank": {}},
        "peak_allocated_bytes": peak,
        "peak_reserved_bytes": None,
    }
    summary["system"] = {
        "nodes": [
            _empty(
                NodeSummary,
                node=node,
                rank=4 * node,
                readings=9,
                cpu_count=32,
                cpu_cores_mean=7.0,
                ram_total_bytes=275_000_000_000,
            )
            for node in (0, 1)
        ],
        "devices": [
            _empty(
                DeviceSummary,
                rank=rank,
                device=0,
                node=rank // 4,
                readings=9,
                throttle_reason_shares={},
            )
            for rank in range(8)
        ],
        "ram_used_worst_share": {"value": 0.24, "rank": 4},
        "utilisation_worst_share": {"value": 0.61, "rank": 5},
        "memory_used_worst_share": {"value": 0.9, "rank": 3},
        "temperature_worst_c": {"value": 71.4, "rank": 3},
        "throttled_worst_share": None,
    }
    return summary


@pytest.fixture
def balanced() -> Summary:
    """A run in which nothing stands out."""
    summary = _input_bound()
    summary["verdict"] = {
        "kind": "BALANCED",
        "outcome": "balanced",
        "severity": "info",
        "confidence": 0.9,
        "headline": "No single cause stands out",
        "why": "the largest account takes 38 % of the step, which is usual for this kind of model",
        "action": "Nothing needs to change.",
        "cost_s": None,
        "cost_basis": None,
        "gain": None,
    }
    summary["findings"] = []
    return summary


@pytest.fixture
def zero_steps() -> Summary:
    """A run that failed before its first step was complete, with nothing measured."""
    summary: Summary = _nulled(_input_bound())
    summary["run"].update(
        status="failed", exit_code=1, name="broken", world_size=1, duration_s=0.21
    )
    summary["counts"].update(steps=0, steps_aborted=1)
    summary["verdict"].update(kind="TOO_FEW_STEPS", outcome="insufficient_data", severity="info")
    summary["verdict"].update(headline="Too few steps to judge: 0 of the 20 that are needed")
    summary["findings"], summary["wall"]["accounts_ns"] = [], {}
    return summary


@pytest.fixture
def one_step() -> Summary:
    """A run of a single step: no statistics, but every second has its place."""
    summary = _input_bound()
    summary["counts"].update(steps=1, samples=32, micro_batches=1)
    metrics = summary["step_time"]["metrics"]
    summary["step_time"]["metrics"] = {name: _metric(None, None, None, None) for name in metrics}
    summary["verdict"] = {
        "kind": "TOO_FEW_STEPS",
        "outcome": "insufficient_data",
        "severity": "info",
    }
    summary["findings"] = []
    return summary


@pytest.fixture
def failed() -> Summary:
    """A run that ended in an exception in step 412."""
    summary = _input_bound()
    summary["run"].update(status="failed", exit_code=1)
    summary["counts"].update(steps=411, steps_aborted=1)
    return summary


@pytest.fixture
def nothing_measured() -> Summary:
    """A summary in which every number is null and every text is missing."""
    summary: Summary = _nulled(_input_bound())
    return summary


@pytest.fixture
def hostile() -> Summary:
    """A summary whose names try to be markup, escape codes, long, wide and unencodable."""
    summary = _input_bound()
    evil = "[red]\x1b[31mboo\x1b[0m[/red]\r\n\x07\u202e\ud800 [bold]名前\N{SNOWMAN}" + "x" * 400
    summary["run"]["name"] = evil
    summary["run"]["framework"] = evil
    summary["setup"]["device"]["name"] = evil
    summary["verdict"].update(headline=evil, why=evil, action=evil)
    summary["findings"][1].update(kind=evil, headline=evil)
    summary["warnings"] = [evil]
    summary["artifacts"] = {"json": evil}
    summary["wall"]["accounts_ns"][evil] = 3_000_000_000
    summary["families"][evil] = {"state": evil, "reason": evil, "primary": None}
    return summary


@pytest.fixture
def new_manifest() -> Callable[..., Manifest]:
    """A function that writes the manifest of a run into a folder, which it makes."""

    def write(folder: Path, **changes: Any) -> Manifest:
        folder.mkdir(exist_ok=True)
        manifest = Manifest(
            name="digits",
            id="5f",
            status="completed",
            exit_code=None,
            plugin="plain_torch",
            plugin_version="0.1.0",
            framework="torch",
            framework_version="2.13.0",
            tool_version="0.1.0",
            started_at=1.0,
            ended_at=None,
            world_size=1,
            nodes=1,
            environment=Environment(python="3.11.9"),
            folder=folder,
        )
        manifest = replace(manifest, **changes)
        manifest.write()
        return manifest

    return write


@pytest.fixture
def printed() -> Callable[..., str]:
    """A function that prints a report to something that is not a terminal and gives the text."""

    def print_to_text(summary: Summary, width: int = 80, encoding: str = "utf-8") -> str:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
        print_report(summary, file=stream, width=width)
        stream.flush()
        return raw.getvalue().decode(encoding)

    return print_to_text


def _nulled(tree: Any) -> Any:
    """Give the same keys with null for every number and text."""
    if isinstance(tree, dict):
        return {key: _nulled(value) for key, value in tree.items()}
    return [] if isinstance(tree, list) else None


def _input_bound() -> Summary:
    accounts_ns = {name: round(value * 1e9) for name, value in _ACCOUNTS_S.items()}
    return copy.deepcopy(
        {
            "schema_version": "0.4",
            "generated_at": "2026-03-02T14:05:12+00:00",
            "tool": {
                "name": "traintrace",
                "version": "0.1.0",
                "plugin": "lightning",
                "plugin_version": "0.1.0",
            },
            "run": {
                "name": "digits-lightning",
                "id": "5f0c1d3a",
                "status": "completed",
                "exit_code": None,
                "telemetry_status": "complete",
                "framework": "lightning",
                "framework_version": "2.6.6",
                "started_at": 1_772_460_300.0,
                "duration_s": sum(_ACCOUNTS_S.values()),
                "world_size": 1,
                "ranks_seen": [0],
                "nodes": {"expected": 1, "seen": 1},
                "attempts": [
                    {
                        "n": 0,
                        "status": "completed",
                        "wall_s": 10.19,
                        "downtime_before_s": None,
                        "steps": 900,
                    }
                ],
            },
            "setup": {
                "strategy": "single_process",
                "device": {"kind": "cpu", "name": None, "count": 1},
                "precision": "32-true",
                "compiled": False,
                "accumulation": 1,
                "batch_size": 32,
                "batch_bytes": 8192,
                "loader": {
                    "workers": 0,
                    "prefetch_factor": None,
                    "pin_memory": False,
                    "persistent": False,
                    "reads_for_all": False,
                },
                "cpu_count": 4,
                "omp_threads": 4,
                "parameter_count": 25_450,
            },
            "environment": {
                "python": "3.11.9",
                "cpu": "AMD EPYC 7763",
                "torch": "2.13.0",
                "cuda": None,
                "driver": None,
                "packages": {},
                "git": {"commit": None, "dirty": None},
                "seeds": {},
                "flags": {"OMP_NUM_THREADS": "1"},
                "fingerprint": "5d1a0c7be2f94a36",
            },
            "counts": {
                "steps": 900,
                "steps_aborted": 0,
                "micro_batches": 900,
                "samples": 28_740,
                "tokens": None,
                "padded_tokens": None,
                "updates_skipped": 0,
                "steps_unpublished": None,
                "epochs": 20,
                "dropped_rows": 0,
            },
            "throughput": {
                "steps_per_s": {"step": 96.3, "round_trip": 88.3},
                "samples_per_s": {"step": 3075.0, "round_trip": 2819.0},
                "tokens_per_s": {"step": None, "round_trip": None},
            },
            "verdict": {
                "kind": "INPUT_BOUND",
                "outcome": "finding",
                "severity": "critical",
                "confidence": 0.97,
                "headline": "Training waits for data: 78 % of the step is spent in next()",
                "why": "the loader has 0 workers, so each batch is prepared on the training thread (8.06 ms) "
                "before the 2.31 ms of training begin",
                "action": "set num_workers=3 and persistent_workers=True on the training DataLoader; "
                "3 workers at the measured rate hide the wait",
                "cost_s": 7.264,
                "cost_basis": "run",
                "gain": {
                    "speedup": 3.47,
                    "low": 3.1,
                    "high": 3.49,
                    "clock": "host",
                    "scope": "loop",
                },
            },
            "families": {
                "step_time": _family("finding", "Training waits for data", "INPUT_BOUND"),
                "between_steps": _family("finding", "Evaluation is long", "EVALUATION_COST"),
                "ranks": _family("not_measured", "One rank."),
                "communication": _family("not_measured", "One rank."),
                "memory": _family("not_measured", "No accelerator."),
                "system": _family("clean", "Nothing stands out."),
                "process": _family("clean", "Nothing stands out."),
                "convergence": _family("insufficient", "No loss was logged."),
                "efficiency": _family("insufficient", "No loss was logged."),
                "stages": _family("clean", "Nothing stands out."),
            },
            "findings": [
                _finding("INPUT_BOUND", "step_time", "critical", 7.264, "Training waits for data"),
                _finding(
                    "EVALUATION_COST",
                    "between_steps",
                    "info",
                    0.402,
                    "evaluation takes 3.9 % of the run",
                ),
                _finding(
                    "RESIDUAL_HEAVY",
                    "step_time",
                    "warning",
                    0.31,
                    "a step spends 1.0 % in work that belongs to no phase, callbacks most of all",
                ),
            ],
            "wall": {
                "clock": "host",
                "rank": 0,
                "attempt": 0,
                "total_ns": sum(accounts_ns.values()),
                "accounts_ns": accounts_ns,
                "groups_ns": {},
                "by_rank": {},
            },
            "step_time": {
                "unit": "ms",
                "clock": "host",
                "window": {
                    "start_step": 21,
                    "end_step": 900,
                    "steps": 880,
                    "warmup_steps": 20,
                    "warmup_ms": 402.1,
                },
                "metrics": {name: _metric(*values) for name, values in _METRICS_MS.items()},
            },
            "statistics": {"unit": "ms", "metrics": {}},
            "series": {
                "step": [21, 461],
                "step_time_ms": [10.4, 10.3],
                "input_wait_ms": [8.1, 8.0],
                "loss": [],
                "memory_bytes": [],
            },
            "memory": None,
            "system": None,
            "process": None,
            "ranks": None,
            "communication": None,
            "efficiency": None,
            "convergence": None,
            "stages": None,
            "guard": None,
            "overhead": {
                "method": "in_situ",
                "per_step_us": {"estimate": 46.0, "low": 38.0, "high": 55.0},
                "share": 0.0044,
                "level": "host",
                "setup_s": 0.061,
                "finish_s": 0.234,
                "transitions_per_step": 22,
            },
            "coverage": {
                "h2d": {
                    "state": "not_measured",
                    "ranks_measured": 0,
                    "steps_measured": 0,
                    "reason": "no accelerator",
                }
            },
            "warnings": [],
            "artifacts": {"json": "final_summary.json", "text": "final_summary.txt"},
        }
    )


def _empty(shape: type[NodeSummary | DeviceSummary], **known: object) -> Summary:
    return {**{field.name: None for field in fields(shape)}, **known}


def _family(state: str, reason: str, primary: str | None = None) -> Summary:
    return {"state": state, "reason": reason, "primary": primary}


def _finding(kind: str, family: str, severity: str, cost_s: float, headline: str) -> Summary:
    return {
        "id": kind.lower().replace("_", "-"),
        "kind": kind,
        "family": family,
        "severity": severity,
        "confidence": 0.95,
        "ranks": [0],
        "evidence": {},
        "cost_s": cost_s,
        "cost_basis": "run",
        "gain": None,
        "headline": headline,
        "why": "It was measured.",
        "action": "Change it.",
    }


def _metric(
    median: float | None, mean: float | None, p95: float | None, share: float | None
) -> Summary:
    return {
        "clock": "host",
        "mean": mean,
        "std": None,
        "median": median,
        "p95": p95,
        "p99": None,
        "min": None,
        "max": None,
        "share": share,
        "by_rank": {"0": mean},
        "worst": mean,
        "worst_rank": 0,
        "representative_rank": 0,
        "skew": None,
        "host_mean": mean,
        "device_mean": None,
        "n": 880,
        "ranks_measured": 1,
        "start": None,
        "end": None,
        "drift": None,
        "tail": None,
    }
