"""Whether two runs may be compared under a guard at all, and in words why not."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from traintrace.errors import RunReadError, UsageError
from traintrace_reporting.format import clean, dig, finite
from traintrace_reporting.guard_contract import contract_of, shown

# What must be the same machine for a difference in time to be one of the code.
_MACHINE: Final[Mapping[str, tuple[str, ...]]] = {
    "processor": ("environment", "cpu"),
    "number of CPUs": ("setup", "cpu_count"),
    "kind of device": ("setup", "device", "kind"),
    "device": ("setup", "device", "name"),
    "number of devices": ("setup", "device", "count"),
}


def measured_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Give a summary whose window is the steps that its guard measures."""
    measured = summary["guard"]["measurement"]
    return {
        **summary,
        "step_time": measured["step_time"],
        "statistics": measured["statistics"],
    }


def check_declaration(summary: Mapping[str, Any]) -> None:
    """Check that the declaration in a summary is one, and has the digest that stands beside it.

    Raises:
        RunReadError: It was changed by hand; the message names the field.
    """
    guard = summary.get("guard")
    if not guard:
        return
    try:
        contract = contract_of(guard["declaration"])
    except UsageError as error:
        raise RunReadError(f"guard.declaration: {error}") from error
    if guard["digest"] != contract.digest:
        raise RunReadError("guard.digest: this is not the digest of guard.declaration")
    window = dig(guard, "measurement", "step_time", "window")
    first, last = dig(window, "start_step"), dig(window, "end_step")
    inside = first is None or contract.start_step <= first <= last <= contract.end_step
    if not inside or window["steps"] > contract.completed_steps or window["warmup_steps"]:
        raise RunReadError(
            "guard.measurement.step_time.window: these are not the steps of guard.declaration"
        )


def obstacles(
    a: Mapping[str, Any], b: Mapping[str, Any], names: tuple[str, str] = ("A", "B")
) -> list[str]:
    """Say what forbids a decision about two runs, as sentences; nothing if they can be compared."""
    alone = [*_of_one(names[0], a), *_of_one(names[1], b)]
    if not (a.get("guard") and b.get("guard")):
        return alone
    apart = (*_declarations(a, b), *_topologies(a, b), *_clocks(a, b), *_machines(a, b))
    return [told.format(A=names[0], B=names[1]) for told in apart] + alone


def _of_one(side: str, summary: Mapping[str, Any]) -> Iterator[str]:
    guard = summary.get("guard")
    if not guard:
        reason = clean(dig(summary, "coverage", "section.guard", "reason"), 200)
        yield f"{side} declares no guard: start it by `traintrace run` with one. {reason}".strip()
        return
    status = clean(dig(summary, "run", "status"), 20)
    if status != "completed":
        yield f"{side} has not completed: its status is {status}."
    completion = guard["launcher_completion"]
    if completion is None:
        yield f"{side}: its launchers have not said how training ended."
    elif completion["status"] != "completed":
        why = ", ".join(completion["reasons"]) or "no reason given"
        yield f"{side}: training did not complete on all nodes ({why})."
    reason = guard["measurement"]["reason"]
    if reason is not None:
        yield f"{side} does not have all measured steps: {clean(reason, 200)}."
    median = finite(dig(_step_time(summary), "metrics", "step_time", "mean"))
    if median is None or median <= 0.0:
        yield f"{side}: the measured steps have no positive time."


def _declarations(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    one, other = (dict(_leaves(summary["guard"]["declaration"], ())) for summary in (a, b))
    for name in sorted({*one, *other}):
        left, right = one.get(name, _ABSENT), other.get(name, _ABSENT)
        if left != right or type(left) is not type(right):
            yield _apart(f"The declarations differ: {name} is", _value(left), _value(right))


def _leaves(value: object, place: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*place, clean(key, 64)))
    else:
        yield ".".join(place), value


_ABSENT: Final = object()


def _value(value: object) -> str:
    return "missing" if value is _ABSENT else shown(value)


def _topologies(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for name, there in (
        ("nodes", ("run", "nodes", "expected")),
        ("world_size", ("run", "world_size")),
    ):
        for what, (left, right) in (
            ("expected", tuple(dig(one, "guard", "expected", name) for one in (a, b))),
            ("seen", tuple(dig(one, *there) for one in (a, b))),
        ):
            if left != right:
                yield _apart(f"The topology differs: {name} ({what}) is", left, right)


def _clocks(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    clocks = [clean(dig(_step_time(one), "clock"), 20) for one in (a, b)]
    if clocks[0] != clocks[1]:
        yield _apart("There is no common clock: times are of the clock", *clocks)


def _machines(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for name, place in _MACHINE.items():
        left, right = dig(a, *place), dig(b, *place)
        if left != right:
            values = (clean(value, 80) or "unknown" for value in (left, right))
            yield _apart(f"The machines differ: the {name} is", *values)


def _apart(what: str, left: object, right: object) -> str:
    """Give a sentence about two values, with the names of the runs left open."""
    one, other = (str(value).replace("{", "{{").replace("}", "}}") for value in (left, right))
    return f"{what.replace('{', '{{').replace('}', '}}')} {one} in {{A}} and {other} in {{B}}."


def _step_time(summary: Mapping[str, Any]) -> Any:
    return dig(summary, "guard", "measurement", "step_time")
