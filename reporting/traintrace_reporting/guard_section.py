"""The `guard` section of a summary: what was declared, and what the measured steps took."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from traintrace import Run
from traintrace.errors import UsageError
from traintrace_reporting.guard_contract import Contract, contract_of, shown

Json: TypeAlias = dict[str, Any]


def add_guard(summary: Json, run: Run) -> None:
    """Fill in the guard of a run that declared one; leave it null, with the reason, if that is not possible.

    Raises:
        NewerSchemaError: A rank file was written by a newer traintrace.
    """
    captured = run.manifest.guard
    if captured is None:
        return
    coverage: Json = summary["coverage"]["section.guard"]
    try:
        contract = _contract_in(captured)
    except UsageError as error:
        coverage["reason"] = f"What the manifest says of the guard cannot be used ({error})."
        summary["warnings"].append(str(coverage["reason"]))
        return
    measurement = _measurement(run, contract)
    reason, ranks = measurement["reason"], measurement["step_time"]["metrics"]["step_time"]
    coverage.update(
        state="measured" if reason is None else "partial",
        ranks_measured=ranks["ranks_measured"],
        steps_measured=measurement["step_time"]["window"]["steps"],
        reason=reason,
    )
    if not coverage["steps_measured"]:
        coverage["state"] = "not_measured"
    expected = captured.get("expected")
    summary["guard"] = {
        "declaration": contract.content,
        "digest": contract.digest,
        "measurement": measurement,
        "expected": {
            name: expected.get(name) if isinstance(expected, Mapping) else None
            for name in ("nodes", "world_size")
        },
        "launcher_completion": _completion(run),
    }


def _contract_in(captured: object) -> Contract:
    if not isinstance(captured, Mapping):  # somebody edited the manifest
        raise UsageError(f"it is {shown(captured)}")
    contract = contract_of(captured.get("contract"))
    if captured.get("digest") != contract.digest:
        raise UsageError("its digest is that of another declaration")
    return contract


def _measurement(run: Run, contract: Contract) -> Json:
    from traintrace_analysis import REQUIRED_COLUMNS
    from traintrace_analysis.measured_range import measure_range
    from traintrace_reporting.sections import measured_range

    steps = (contract.start_step, contract.end_step)
    return measured_range(measure_range(run.facts(REQUIRED_COLUMNS, steps=steps), *steps))


def _completion(run: Run) -> Json | None:
    training = run.manifest.training
    if training is None:
        return None
    return {
        "status": training.status,
        "nodes_expected": training.nodes_expected,
        "nodes_observed": training.nodes_observed,
        "reasons": list(training.reasons),
    }
