"""The report's sentences, in plain words.

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
    moment,
    number,
    percent,
    seconds,
    sentence,
)

_STATES: Final = {
    "finding": "Findings in",
    "clean": "Clean",
    "insufficient": "Too little data",
    "not_measured": "Not measured",
}
_LONGEST_REASONS: Final = 240
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
    after = "" if steps is None else f" after {count(steps, 'completed step')}"
    return f"{told}{after}{'' if code is None else f', exit code {code:.0f}'}."


def absences(summary: Mapping[str, Any]) -> list[str]:
    """Give one sentence for each rank, node or step that the report does not cover."""
    run = dig(summary, "run")
    notes = []
    seen, world = dig(run, "ranks_seen"), finite(dig(run, "world_size"))
    if isinstance(seen, list) and world is not None and len(seen) < world:
        lost = f"{world - len(seen):.0f} of {world:.0f} ranks" if seen else "Every rank"
        notes.append(f"{lost} left no record.")
    nodes_seen, nodes = finite(dig(run, "nodes", "seen")), finite(dig(run, "nodes", "expected"))
    if nodes_seen is not None and nodes is not None and nodes_seen < nodes:
        notes.append(f"{nodes - nodes_seen:.0f} of {nodes:.0f} nodes left no record.")
    for key, told in (
        ("steps_aborted", "dropped before its update"),
        ("dropped_rows", "counted in the totals only, because the recorder fell behind"),
    ):
        steps = finite(dig(summary, "counts", key))
        if steps:
            notes.append(f"{count(steps, 'step')} {told}.")
    return notes


def cost(summary: Mapping[str, Any]) -> str:
    """Give the verdict's price and how sure it is; an empty string where no cause is named."""
    verdict = dig(summary, "verdict")
    cost_s, total_ns = finite(dig(verdict, "cost_s")), finite(dig(summary, "wall", "total_ns"))
    if cost_s is None:
        return ""
    sure, price = finite(dig(verdict, "confidence")), seconds(cost_s)
    if dig(verdict, "cost_basis") == "window":
        price += " over the run, scaled from the window"
    elif total_ns:
        price += f" of {seconds(total_ns / 1e9)}"
    return joined((price, "" if sure is None else f"confidence {100 * sure:.0f} %"))


def gain(value: object) -> str:
    """Give "Training loop 1.62x faster without it (1.41x to 1.70x, host clock)", or nothing.

    Where the low end is none at all, the speed-up is the most that can be won.
    """
    speedup = finite(dig(value, "speedup"))
    if speedup is None:
        return ""
    low, high = finite(dig(value, "low")), finite(dig(value, "high"))
    what = "Whole run" if dig(value, "scope") == "run" else "Training loop"
    clock = clean(dig(value, "clock"))
    exact = low is not None and low == high
    if low == 1.0:
        return f"{what} at most {speedup:.2f}x faster without it"
    span = "" if low is None or high is None or exact else f"{low:.2f}x to {high:.2f}x"
    detail = joined((span, f"{clock} clock" if clock and not exact else ""), ", ")
    return f"{what} {speedup:.2f}x faster without it" + (f" ({detail})" if detail else "")


def throughput(summary: Mapping[str, Any]) -> str:
    """Give the rates within steps, and on a second line those over the round trip."""
    lines = []
    for key, meaning in (("step", "within steps"), ("round_trip", "round trip")):
        rates = {
            noun: finite(dig(summary, "throughput", f"{noun}_per_s", key))
            for noun in ("steps", "samples", "tokens")
        }
        # A rate that is unknown beside a known one is left out: most models have no tokens.
        known = [f"{number(rate)} {noun}/s" for noun, rate in rates.items() if rate is not None]
        lines += [f"{joined(known)}  {meaning}"] if known else []
    return "\n".join(lines) or NOT_MEASURED


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


def checks(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give (state, families) for each state that a family of findings is in."""
    families = dig(summary, "families")
    grouped: dict[str, dict[str, list[str]]] = {}
    for name, entry in families.items() if isinstance(families, Mapping) else ():
        state = clean(dig(entry, "state")) or "not_measured"
        reason = "" if state == "finding" else clean(dig(entry, "reason")).rstrip(".")
        grouped.setdefault(state, {}).setdefault(reason, []).append(clean(name, 40))
    order = sorted(grouped, key=lambda state: [*_STATES, state].index(state))
    return [(_STATES.get(state, state), _with_reasons(grouped[state])) for state in order]


def _with_reasons(names_by_reason: Mapping[str, list[str]]) -> str:
    parts = [
        ", ".join(names) + (f" ({reason})" if reason else "")
        for reason, names in names_by_reason.items()
    ]
    if sum(map(len, parts)) <= _LONGEST_REASONS:
        return "; ".join(parts)
    names = ", ".join(name for names in names_by_reason.values() for name in names)
    return f"{names} (reasons: families in final_summary.json)"


def window(summary: Mapping[str, Any]) -> str:
    """Give what the table of one step covers: steps, warm-up left out, clock."""
    steps = dig(summary, "step_time")
    warm, clock = finite(dig(steps, "window", "warmup_steps")), clean(dig(steps, "clock"))
    parts = (
        count(dig(steps, "metrics", "step_time", "n"), "step"),
        f"after {warm:,.0f} of warm-up" if warm else "",
        f"on the {clock} clock" if clock else "",
    )
    return joined(parts, " ")


def why_missing(summary: Mapping[str, Any], signal: str) -> str:
    """Give "not measured" with the reason that the coverage gives for `signal`."""
    reason = clean(dig(summary, "coverage", signal, "reason"))
    return f"{NOT_MEASURED}: {reason}" if reason else NOT_MEASURED


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """Give the warnings of the run as sentences."""
    found = dig(summary, "warnings")
    return [sentence(entry) for entry in found] if isinstance(found, list) else []
