"""What the report says of a run as a whole: how it ended, how fast it was, what it ran on.

Every function reads the summary alone and tolerates what is missing; nothing here calculates.
"""

from collections.abc import Mapping
from typing import Any, Final

from traintrace_reporting.format import (
    NOT_MEASURED,
    clean,
    count,
    dig,
    finite,
    joined,
    milliseconds,
    moment,
    number,
    percent,
    seconds,
    sentence,
)
from traintrace_reporting.watch_words import is_watched

# Nothing to warn of where steps cannot be seen.
_NO_STEPS: Final = "No completed step"
_ENDINGS: Final = {
    "running": "This run has not ended: the numbers are those written so far.",
    "failed": "Training failed",
    "interrupted": "Training was interrupted",
    "lost": "Training stopped without a word (killed, or the machine was lost)",
}


def subtitle(summary: Mapping[str, Any]) -> str:
    """Give what ran: framework, ranks, steps, length and start."""
    run = dig(summary, "run")
    world = finite(dig(run, "world_size"))
    steps, length = finite(dig(summary, "counts", "steps")), finite(dig(run, "duration_s"))
    if is_watched(summary):
        steps = None
    return joined(
        (
            clean(f"{dig(run, 'framework') or ''} {dig(run, 'framework_version') or ''}", 40),
            count(world, "rank") if world is not None and world > 1 else "",
            "" if steps is None else count(steps, "step"),
            "" if length is None else seconds(length),
            moment(dig(run, "started_at")),
        )
    )


def ending(summary: Mapping[str, Any]) -> str:
    """Give one sentence about a run that did not complete; an empty string for one that did."""
    run = dig(summary, "run")
    status = clean(dig(run, "status"))
    if status in ("completed", ""):
        return ""
    told = _ENDINGS.get(status, f"The status of this run is {status}")
    code = finite(dig(run, "exit_code"))
    if status == "running":
        return told
    steps = finite(dig(summary, "counts", "steps"))
    if is_watched(summary):
        told, steps = told.replace("Training", "The program"), None
    after = "" if steps is None else f" after {count(steps, 'completed step')}"
    return f"{told}{after}{'' if code is None else f', exit code {code:.0f}'}."


def absences(summary: Mapping[str, Any]) -> list[str]:
    """Give one sentence for each rank, node or step that the report does not cover."""
    run = dig(summary, "run")
    seen, world = dig(run, "ranks_seen"), finite(dig(run, "world_size"))
    if seen == []:
        return []  # the verdict says that no rank left a record
    notes = _restarts(dig(run, "attempts"))
    if isinstance(seen, list) and world is not None and len(seen) < world:
        notes.append(f"{world - len(seen):.0f} of {world:.0f} ranks left no record.")
    nodes_seen, nodes = finite(dig(run, "nodes", "seen")), finite(dig(run, "nodes", "expected"))
    if nodes_seen is not None and nodes is not None and nodes_seen < nodes:
        notes.append(f"{nodes - nodes_seen:.0f} of {nodes:.0f} nodes left no record.")
    aborted = finite(dig(summary, "counts", "steps_aborted"))
    if aborted:
        notes.append(f"{count(aborted, 'step')} dropped before {_its(aborted)} update.")
    return notes


def _its(number: float) -> str:
    return "its" if number == 1 else "their"


def _restarts(attempts: object) -> list[str]:
    """Say that a job was started again, and how the start before the last one ended."""
    if not isinstance(attempts, list) or len(attempts) < 2:
        return []
    before, last = attempts[-2:]
    status = clean(dig(before, "status"), 20) or "over"
    steps, idle_s = dig(before, "steps"), finite(dig(last, "downtime_before_s"))
    after = "" if idle_s is None else f", {seconds(idle_s)} before it"
    return [
        f"Started {len(attempts)} times; this is about the last start. "
        f"The one before: {status} after {count(steps, 'step')}{after}."
    ]


def throughput(summary: Mapping[str, Any]) -> str:
    """Give the rates within steps, and on a second line those over the round trip."""
    lines: dict[str, str] = {}
    for key, meaning in (("step", "within steps"), ("round_trip", "with what lies between")):
        rates = {
            noun: finite(dig(summary, "throughput", f"{noun}_per_s", key))
            for noun in ("steps", "samples", "tokens")
        }
        # A rate that is unknown beside a known one is left out: most models have no tokens.
        known = [f"{number(rate)} {noun}/s" for noun, rate in rates.items() if rate is not None]
        if known:
            lines[joined(known)] = meaning
    if len(lines) == 1:  # hardly anything lies between the steps
        return next(iter(lines))
    return "\n".join(f"{rates}  {meaning}" for rates, meaning in lines.items()) or NOT_MEASURED


def setup(summary: Mapping[str, Any]) -> str:
    """Give the configuration that explains the numbers."""
    found = dig(summary, "setup")
    device, loader = dig(found, "device"), dig(found, "loader")
    devices = finite(dig(device, "count"))
    kind = joined((clean(dig(device, "kind")), clean(dig(device, "name"), 40)), " ")
    if devices is not None and devices > 1:
        kind = f"{devices:.0f} x {kind}"
    batch, groups = finite(dig(found, "batch_size")), finite(dig(found, "accumulation"))
    workers = finite(dig(loader, "workers"))
    return joined(
        (
            kind or "device unknown",
            "batch size unknown" if batch is None else f"batch {batch:,.0f}",
            "accumulation unknown" if groups is None else f"accumulation {groups:.0f}",
            "loader workers unknown" if workers is None else count(workers, "loader worker"),
            "pinned memory" if dig(loader, "pin_memory") is True else "",
            clean(dig(found, "precision"), 20) or "precision unknown",
            "compiled" if dig(found, "compiled") is True else "",
            clean(dig(found, "strategy"), 20) if (devices or 1) > 1 else "",
        )
    )


def guard(summary: Mapping[str, Any]) -> str:
    """Give what the guard measured, or why not all of it; an empty string without one."""
    declared, measured = dig(summary, "guard", "declaration"), dig(summary, "guard", "measurement")
    if declared is None:
        return ""
    first = finite(dig(declared, "measurement", "start_step")) or 0.0
    steps = finite(dig(declared, "measurement", "completed_steps")) or 0.0
    mean = finite(dig(measured, "step_time", "metrics", "step_time", "mean"))
    reason = clean(dig(measured, "reason"), 120)
    return joined(
        (
            clean(dig(declared, "workload", "name"), 60),
            f"steps {first:,.0f} to {first + steps - 1:,.0f}",
            "" if mean is None else f"{milliseconds(mean, mean)} ms a step",
            f"not complete: {reason}" if reason else "",
        )
    )


def tracing(summary: Mapping[str, Any]) -> str:
    """Give what tracing itself cost, with its range."""
    spent = dig(summary, "overhead")
    per_step = dig(spent, "per_step_us")
    estimate = finite(dig(per_step, "estimate"))
    low, high = finite(dig(per_step, "low")), finite(dig(per_step, "high"))
    if estimate is None:
        price = f"cost per step {NOT_MEASURED}"
    else:
        span = "" if low is None or high is None else f"{number(low)} to {number(high)}"
        share = finite(dig(spent, "share"))
        detail = joined((span, "" if share is None else f"{percent(share)} of step time"), ", ")
        price = f"{number(estimate)} us a step" + (f" ({detail})" if detail else "")
    level = clean(dig(spent, "level"))
    return joined(
        (
            price,
            f"set-up {seconds(dig(spent, 'setup_s'))}",
            f"finish {seconds(dig(spent, 'finish_s'))}",
            f"level {level}" if level else "",
        )
    )


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """Give the warnings of the run as sentences."""
    found = dig(summary, "warnings")
    told = [sentence(entry) for entry in found] if isinstance(found, list) else []
    return [entry for entry in told if not (is_watched(summary) and entry.startswith(_NO_STEPS))]
