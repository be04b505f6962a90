"""Figures of all faults, and the table of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.faults.outcome import Outcome

LIMIT_S: Final = 1.0
_SHOWN: Final = 3


def figures_of(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """Sum up: the most that was lost, how many repetitions changed training or left something."""
    faults = {name: _sum(many) for name, many in outcomes.items()}
    everything = _sum([one for many in outcomes.values() for one in many])
    overall = {key: everything[key] for key in ("lost_s_max", "changed_results", "leftovers")}
    within = overall["lost_s_max"] is not None and overall["lost_s_max"] <= LIMIT_S
    good = within and not overall["changed_results"] and not overall["leftovers"]
    return {**overall, "good": good, "limit_s": LIMIT_S, "faults": faults}


def _sum(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    wrong = [one.wrong for one in outcomes if one.wrong]
    left = [one.leftovers for one in outcomes if one.leftovers]
    slower = [one.slower for one in outcomes if one.slower is not None]
    lost_s = max((one.lost_s for one in outcomes), default=0.0)
    return {
        "repetitions": len(outcomes),
        "lost_s_max": round(lost_s, 3) if lost_s != float("inf") else None,
        "changed_results": len(wrong),
        "leftovers": len(left),
        "how": sorted({one.how for one in outcomes}),
        **(
            {"step_time_ratio_median": round(sorted(slower)[len(slower) // 2], 3)} if slower else {}
        ),
        **({"details": [*wrong, *left][:_SHOWN]} if wrong or left else {}),
    }


def write_table(figures: Mapping[str, Any]) -> str:
    """Write the figures as a table in Markdown."""
    lines = [
        "| fault | made by | times | most lost, s | changed results | leftovers |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in figures["faults"].items():
        how = ", ".join(one["how"])
        lines.append(_line(name, how, one["repetitions"], one))
    lines.append(
        _line("all", "", sum(f["repetitions"] for f in figures["faults"].values()), figures)
    )
    details = [
        f"{name}: {one['details']}" for name, one in figures["faults"].items() if "details" in one
    ]
    ratios = [
        f"Steps on the {name}: {one['step_time_ratio_median']} times those of untraced training (median)."
        for name, one in figures["faults"].items()
        if "step_time_ratio_median" in one
    ]
    return "\n".join([*lines, "", *ratios, *details])


def _line(name: str, how: str, times: int, figures: Mapping[str, Any]) -> str:
    lost = figures["lost_s_max"]
    cells = (name, how, times, "-" if lost is None else f"{lost:.2f}")
    return (
        f"| {' | '.join(map(str, cells))} | {figures['changed_results']} | {figures['leftovers']} |"
    )
