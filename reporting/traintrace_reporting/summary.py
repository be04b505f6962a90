"""Project an analysed run onto the published shape of `final_summary.json`.

Nothing is calculated or diagnosed here: numbers are renamed, and what JSON cannot say (NaN,
infinities) becomes null.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, Final, TypeAlias

from traintrace.facts import RankFacts, RunFacts, Setup
from traintrace_analysis import Analysis
from traintrace_analysis.model import Rate
from traintrace_reporting import sections
from traintrace_reporting.flat import flatten
from traintrace_reporting.lenses import communication, convergence, efficiency, stages
from traintrace_reporting.tracer_cost import estimate_overhead

__all__ = ["SCHEMA_VERSION", "flatten", "summarise"]

Json: TypeAlias = dict[str, Any]  # nested JSON; every leaf is a str, int, float, bool or None

SCHEMA_VERSION: Final = "0.4"


def summarise(
    facts: RunFacts, analysis: Analysis, *, generated_at: str | float, overhead: Json | None = None
) -> Json:
    """Give the content of `final_summary.json`: every top-level key is always present.

    Args:
        facts: The run that was analysed.
        analysis: What `traintrace_analysis.analyse` made of it.
        generated_at: Moment of writing: ISO 8601, or Unix seconds, which are written as ISO 8601.
        overhead: Replaces the estimate of the tracer's cost; None estimates it from the run.
    """
    chosen = _chosen_rank(facts, analysis)
    summary: Json = {
        "schema_version": SCHEMA_VERSION,
        "generated_at": _moment(generated_at),
        "tool": {
            "name": "traintrace",
            "version": facts.tool_version,
            "plugin": facts.plugin,
            "plugin_version": facts.plugin_version,
        },
        "run": _run(facts, analysis),
        "setup": _setup(chosen.setup if chosen is not None else Setup()),
        "environment": _environment(facts, chosen),
        "counts": asdict(analysis.counts),
        "throughput": {
            "steps_per_s": _rate(analysis.throughput.steps_per_s),
            "samples_per_s": _rate(analysis.throughput.samples_per_s),
            "tokens_per_s": _rate(analysis.throughput.tokens_per_s),
        },
        "verdict": asdict(analysis.verdict),
        "families": {name: asdict(state) for name, state in analysis.families.items()},
        "findings": [{**asdict(found), "ranks": list(found.ranks)} for found in analysis.findings],
        "wall": sections.wall(analysis.wall),
        "step_time": sections.step_time(analysis),
        "statistics": sections.all_statistics(analysis.statistics),
        "series": {name: list(points) for name, points in asdict(analysis.series).items()},
        "memory": sections.memory(analysis.memory),
        "system": sections.system(analysis.system),
        "process": sections.process(analysis.process),
        "ranks": sections.ranks(analysis.ranks),
        "communication": communication.section(analysis),
        "efficiency": efficiency.section(analysis),
        "convergence": convergence.section(analysis),
        "stages": stages.section(analysis),
        "guard": None,
        "overhead": overhead or estimate_overhead(chosen, analysis),
        "coverage": {
            **{name: asdict(one) for name, one in analysis.coverage.items()},
            "section.guard": {
                "state": "not_measured",
                "ranks_measured": 0,
                "steps_measured": 0,
                "reason": "The run was not started under a guard.",
            },
        },
        "warnings": list(analysis.warnings),
        "artifacts": {},
    }
    content = strict(summary)
    assert isinstance(content, dict)
    return content


def _moment(at: str | float) -> str:
    if isinstance(at, str):
        return at
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="seconds")


def _chosen_rank(facts: RunFacts, analysis: Analysis) -> RankFacts | None:
    wanted = (analysis.representative_rank, analysis.window.attempt)
    return next((rank for rank in facts.ranks if (rank.rank, rank.attempt) == wanted), None)


def _run(facts: RunFacts, analysis: Analysis) -> Json:
    return {
        "name": facts.name,
        "id": facts.id,
        "status": facts.status,
        "exit_code": facts.exit_code,
        "telemetry_status": _telemetry_status(analysis),
        "framework": facts.framework,
        "framework_version": facts.framework_version,
        "started_at": facts.started_at,
        "duration_s": facts.duration_s,
        "world_size": facts.world_size,
        "ranks_seen": sorted({rank.rank for rank in facts.ranks}),
        "nodes": {
            "expected": facts.nodes_expected,
            "seen": len({rank.node for rank in facts.ranks}),
        },
        "attempts": [asdict(attempt) for attempt in analysis.attempts],
    }


def _telemetry_status(analysis: Analysis) -> str:
    """Say how complete the record is: "complete", "partial" (ranks, or the end of one, are missing) or "none"."""
    window = analysis.window
    if not window.ranks:
        return "none"
    lost = analysis.counts.dropped_rows or len(window.ranks) < len(window.expected_ranks)
    died = any(rank.status == "lost" for rank in window.facts)
    return "partial" if lost or died else "complete"


def _setup(setup: Setup) -> Json:
    return {
        "strategy": setup.strategy,
        "device": {
            "kind": setup.device_kind,
            "name": setup.device_name,
            "count": setup.device_count,
        },
        "precision": setup.precision,
        "compiled": setup.compiled,
        "accumulation": setup.accumulation,
        "batch_size": setup.batch_size,
        "batch_bytes": setup.batch_bytes,
        "loader": asdict(setup.loader),
        "cpu_count": setup.cpu_count,
        "omp_threads": setup.omp_threads,
        "parameter_count": setup.parameter_count,
    }


def _environment(facts: RunFacts, chosen: RankFacts | None) -> Json:
    environment = facts.environment
    versions: Json = {
        "python": environment.python,
        "cpu": environment.cpu,
        "torch": environment.torch,
        "cuda": environment.cuda,
        "driver": environment.driver,
        "packages": dict(environment.packages),
    }
    return {
        **versions,
        "git": {"commit": environment.git_commit, "dirty": environment.git_dirty},
        "seeds": dict(environment.seeds),
        "flags": dict(environment.flags),
        "fingerprint": _fingerprint(facts, versions, chosen),
    }


def _fingerprint(facts: RunFacts, versions: Json, chosen: RankFacts | None) -> str:
    """Hash what must agree for two runs' times to compare; code and seeds are left out on purpose."""
    matter = {
        **versions,
        "framework": [facts.framework, facts.framework_version],
        "world_size": facts.world_size,
        "nodes": facts.nodes_expected,
        "setup": _setup(chosen.setup) if chosen is not None else None,
    }
    return hashlib.sha256(json.dumps(matter, sort_keys=True).encode()).hexdigest()[:16]


def _rate(rate: Rate) -> Json:
    return {"step": rate.step, "round_trip": rate.round_trip}


def strict(value: object) -> object:
    """Turn mappings and sequences into JSON's own, and numbers that JSON cannot say into None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value
