"""What `<base>.json` of a comparison holds; its shape is published in schema/comparison.schema.json."""

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, Final, TypeAlias

from traintrace.runs.start import TOOL_VERSION
from traintrace_analysis.comparison.model import ComparedRun, Comparison
from traintrace_reporting.comparing import Answer
from traintrace_reporting.summary import strict

Json: TypeAlias = dict[str, Any]

SCHEMA_VERSION: Final = "0.1"

_OF_A_RUN: Final = (
    "name",
    "id",
    "status",
    "clock",
    "steps",
    "warmup_steps",
    "first_step",
    "started_at",
    "duration_s",
    "topology",
    "hardware",
    "versions",
    "configuration",
    "fingerprint",
    "warnings",
)


def content_of(
    comparison: Comparison, answer: Answer | None, *, generated_at: str | None = None
) -> Json:
    """Give the content of the comparison's file.

    Args:
        comparison: What was found.
        answer: What was decided; None without a threshold.
        generated_at: ISO 8601; None for now.
    """
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    content = strict(
        {
            "schema_version": SCHEMA_VERSION,
            "generated_at": generated_at or now,
            "tool": {"name": "traintrace", "version": TOOL_VERSION},
            "verdict": comparison.verdict,
            "error_rate": comparison.error_rate,
            "error_basis": comparison.error_basis,
            "confidence": comparison.confidence,
            "headline": comparison.headline,
            "why": comparison.why,
            "action": comparison.action,
            "a": [_run(run) for run in comparison.a],
            "b": [_run(run) for run in comparison.b],
            "metrics": [asdict(one) for one in comparison.metrics],
            "phases": [asdict(one) for one in comparison.phases],
            "findings": [asdict(one) for one in comparison.findings],
            "figures": [asdict(one) for one in comparison.figures],
            "warnings": list(comparison.warnings),
            "guard": None if answer is None else _guard(answer),
        }
    )
    assert isinstance(content, dict)
    return content


def _run(run: ComparedRun) -> Json:
    return {name: getattr(run, name) for name in _OF_A_RUN}


def _guard(answer: Answer) -> Json:
    steps = answer.measured_steps
    return {
        "max_step_time_regression_pct": answer.threshold_pct,
        "outcome": answer.outcome,
        "exit_code": answer.exit_code,
        "line": answer.line,
        "phase": answer.phase,
        "reasons": list(answer.reasons),
        "measured_steps": None if steps is None else {"start": steps[0], "end": steps[1]},
    }
