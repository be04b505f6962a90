"""From two runs to what differs between them, and what that explains."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

from traintrace import open_run
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.facts import Scalar
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.model import Comparison
from traintrace_analysis.divergence import Divergence, find_divergences
from traintrace_reporting.comparing import read_input
from traintrace_reporting.provenance import Difference, Provenance, compare_provenance
from traintrace_reporting.remote import local_run
from traintrace_reporting.summary import strict

Json: TypeAlias = dict[str, Any]

SCHEMA_VERSION: Final = "0.1"
TOLERANCE: Final = 1e-4


def diff_runs(a: str, b: str, tolerance: float = TOLERANCE) -> Json:
    """Compare what two runs were made of, and what they logged if both are folders.

    Args:
        a: Path or URL of a run, or of a summary.
        b: The same of the other.
        tolerance: Largest difference of logged values over the larger magnitude that is none.

    Raises:
        RunReadError: One cannot be read; the message names the file.
    """
    one, other = read_input(a), read_input(b)
    found = compare_provenance(one.summary, other.summary)
    compared = compare([one.as_run(guarded=False)], [other.as_run(guarded=False)])
    logged = [_scalars(local_run(place)) for place in (a, b)]
    left, right = logged
    divergences: tuple[Divergence, ...] = ()
    if left is not None and right is not None:
        divergences = find_divergences(left, right, tolerance)
    summaries = [item.summary["run"] for item in (one, other)]
    content = strict(
        {
            "schema_version": SCHEMA_VERSION,
            "a": {name: summaries[0][name] for name in ("name", "id", "status")},
            "b": {name: summaries[1][name] for name in ("name", "id", "status")},
            "differences": [_difference(one) for one in found.differences],
            "unknown": list(found.unknown),
            "doubts": list(found.doubts),
            "time": _time(compared, found),
            "results": _results(logged, divergences, found),
            "tolerance": tolerance,
            "logged": [asdict(one) for one in divergences],
        }
    )
    assert isinstance(content, dict)
    return content


def _difference(one: Difference) -> Json:
    return {
        "name": one.name,
        "a": one.a,
        "b": one.b,
        "may_change": sorted(one.effects),
        "why": one.why,
    }


def _scalars(place: Path) -> list[Scalar] | None:
    """Give what the lowest rank of the latest attempt logged; None where there are no rank files."""
    if not place.is_dir():
        return None
    try:
        ranks = open_run(place).facts([]).ranks
    except NewerSchemaError:
        raise
    except RunReadError:
        return None  # a summary without its run, as after a copy
    if not ranks:
        return None
    latest = max(rank.attempt for rank in ranks)
    chosen = min((rank for rank in ranks if rank.attempt == latest), key=lambda rank: rank.rank)
    return list(chosen.scalars)


def _time(compared: Comparison, found: Provenance) -> Json:
    names = [one.name for one in found.explaining("time")]
    if compared.verdict in ("REGRESSION", "IMPROVEMENT", "MIXED"):
        told = compared.headline
        if not names:
            told += " Nothing that is recorded differs and could explain it."
    elif compared.verdict == "EQUIVALENT":
        told, names = "A step takes the same time in both: there is nothing to explain.", []
    else:
        told = (
            f"Whether a step takes longer is not decided ({compared.verdict}). {compared.headline}"
        )
    return {"verdict": compared.verdict, "told": told, "could_explain": names}


def _results(
    logged: list[list[Scalar] | None], divergences: tuple[Divergence, ...], found: Provenance
) -> Json:
    comparable = [one for one in divergences if one.state != "not_comparable"]
    names = [one.name for one in found.explaining("results")]
    parted = [one for one in comparable if one.bits is not None]
    if not comparable:
        return {"state": "not_comparable", "told": _nothing_logged(logged), "could_explain": []}
    if not parted:
        steps = max(one.common_steps for one in comparable)
        told = f"All that both logged is the same to the last bit, on {steps} common steps."
        return {"state": "identical", "told": told, "could_explain": []}
    first = min(parted, key=lambda one: one.bits.step if one.bits else 0)
    assert first.bits is not None
    state = "parted" if any(one.state == "parted" for one in parted) else "within_tolerance"
    told = f"{first.name} differs first, in step {first.bits.step}. " + _reason(names, found)
    return {"state": state, "told": told, "could_explain": names}


def _nothing_logged(logged: list[list[Scalar] | None]) -> str:
    missing = [side for side, scalars in zip("AB", logged, strict=True) if scalars is None]
    if missing:
        return (
            f"Logged values cannot be compared: of {' and '.join(missing)} there is only a summary."
        )
    silent = [side for side, scalars in zip("AB", logged, strict=True) if not scalars]
    if silent:
        return f"Logged values cannot be compared: {' and '.join(silent)} logged none."
    return "Logged values cannot be compared: no name was logged by both at one step."


def _reason(names: list[str], found: Provenance) -> str:
    if names:
        return f"Could explain it: {', '.join(names)}."
    open_questions = [*found.doubts]
    needed = [name for name in found.unknown if name in ("git commit", "seeds", "torch")]
    if needed:
        open_questions.append(f"not recorded: {', '.join(needed)}")
    if open_questions:
        return (
            f"Nothing that is recorded differs, but {'; '.join(open_questions)}: the cause is open."
        )
    return (
        "Nothing that is recorded differs: same commit, versions, seeds and settings. What is left is data, or "
        "operations that are not deterministic."
    )
