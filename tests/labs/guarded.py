"""Summaries of runs made by hand, guarded or not: real rows through the real analysis."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.labs.runs import CPU_STEP, Value, make_rank, make_run
from traintrace.facts import Environment, Setup
from traintrace_analysis import analyse
from traintrace_analysis.measured_range import measure_range
from traintrace_reporting.guard_contract import Contract
from traintrace_reporting.sections import measured_range
from traintrace_reporting.summary import summarise

CONTRACT = Contract("digits", 5, 100, {"lr": 0.1})


def make_summary(
    name: str = "a",
    *,
    ms: Mapping[str, Value] = CPU_STEP,
    steps: int = 200,
    contract: Contract | None = None,
    device_ms: Mapping[str, Value] | None = None,
    cpu: str = "EPYC",
    ranks: int = 1,
    **of_rank: Any,
) -> dict[str, Any]:
    """Make the summary of a run; with a contract, as `traintrace run` would have made it."""
    setup = Setup(device_kind="cuda" if device_ms else "cpu", cpu_count=8)
    made = [
        make_rank(steps, ms=ms, device_ms=device_ms, rank=rank, setup=setup, **of_rank)
        for rank in range(ranks)
    ]
    facts = replace(
        make_run(*made),
        name=name,
        id=name,
        environment=Environment(python="3.11.7", torch="2.13.0+cpu", cpu=cpu),
    )
    summary = summarise(facts, analyse(facts), generated_at=0.0)
    if contract is not None:
        steps_measured = measure_range(facts, contract.start_step, contract.end_step)
        summary["guard"] = {
            "declaration": contract.content,
            "digest": contract.digest,
            "measurement": measured_range(steps_measured),
            "expected": {"nodes": 1, "world_size": ranks},
            "launcher_completion": {
                "status": "completed",
                "nodes_expected": 1,
                "nodes_observed": 1,
                "reasons": [],
            },
        }
    return summary
