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
    seconds,
)

_STATES: Final = {
    "finding": "Findings in",
    "clean": "No finding in",
    "insufficient": "Undecided",
    "not_measured": "Not measured",
}
_LONGEST_REASON: Final = 110  # characters, two lines in a terminal of 80 columns


def cost(summary: Mapping[str, Any]) -> str:
    """Give the verdict's price and how sure it is; an empty string where no cause is named."""
    verdict = dig(summary, "verdict")
    cost_s, total_ns = finite(dig(verdict, "cost_s")), finite(dig(summary, "wall", "total_ns"))
    if cost_s is None:
        return ""
    sure, price = finite(dig(verdict, "confidence")), seconds(cost_s)
    if not cost_s:
        price = "no time lost that was measured"
    elif total_ns:
        price += f" of {seconds(total_ns / 1e9)}"
    if cost_s and dig(verdict, "cost_basis") == "window":
        price += ", scaled from the window"
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
    ends = [f"{end:.2f}x" for end in (low, high) if end is not None]
    span = " to ".join(ends) if len(set(ends)) == 2 else ""
    detail = joined((span, f"{clock} clock" if clock and not exact else ""), ", ")
    return f"{what} {speedup:.2f}x faster without it" + (f" ({detail})" if detail else "")


def checks(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give (state, families) for each state that a family of findings is in.

    What a clean family was examined for stands in the summary file; here it would hide the rest.
    """
    families, why = dig(summary, "families"), clean(dig(summary, "verdict", "why"))
    grouped: dict[str, dict[str, list[str]]] = {}
    for name, entry in families.items() if isinstance(families, Mapping) else ():
        state = clean(dig(entry, "state")) or "not_measured"
        told = state not in ("finding", "clean")
        reason = _reason(dig(entry, "reason"), why) if told else ""
        grouped.setdefault(state, {}).setdefault(reason, []).append(clean(name, 40))
    order = sorted(grouped, key=lambda state: [*_STATES, state].index(state))
    return [(_STATES.get(state, state), _with_reasons(grouped[state])) for state in order]


def _reason(value: object, why: str) -> str:
    """Give a family's reason in one or two lines, or where it stands already."""
    reason = clean(value).rstrip(".").removeprefix("Not measured: ")
    if reason and reason in why:
        return "see Why"
    return clean(reason[:1].lower() + reason[1:], _LONGEST_REASON)


def _with_reasons(names_by_reason: Mapping[str, list[str]]) -> str:
    return "\n".join(
        ", ".join(names) + (f": {reason}" if reason else "")
        for reason, names in names_by_reason.items()
    )


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


def ranks_note(compared: object, shown: int, found: int) -> str:
    """Give what the table of ranks covers."""
    which = (
        f"{shown - 1} with most work and the one with least, of {found}; " if shown < found else ""
    )
    clock = clean(dig(compared, "clock"))
    return f"{which}mean" + (f" on the {clock} clock" if clock else "")


def ranks_remarks(compared: object) -> str:
    """Give what the table of ranks cannot show: mixed accounts, and ranks that were left out."""
    left_out = dig(compared, "left_out")
    reasons = left_out.items() if isinstance(left_out, Mapping) else ()
    return joined(
        (
            "backward may hold waiting for other ranks"
            if dig(compared, "backward_split") is False
            else "",
            *(f"rank {clean(rank, 8)} is not compared: {clean(why)}" for rank, why in reasons),
        )
    )


def why_missing(summary: Mapping[str, Any], signal: str) -> str:
    """Give "not measured" with the reason that the coverage gives for `signal`."""
    reason = clean(dig(summary, "coverage", signal, "reason")).removeprefix("not_observed: ")
    return f"{NOT_MEASURED}: {reason}" if reason else NOT_MEASURED
