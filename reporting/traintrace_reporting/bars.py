"""The bars of the wall ledger: which are drawn, how long they are, and what their names mean."""

from collections.abc import Mapping, Sequence
from typing import Final

from traintrace_reporting.format import clean, dig, finite, seconds

# The accounts that a verdict is about, to be drawn in its colour.
BLAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "INPUT_BOUND": ("input_wait",),
    "H2D_BOUND": ("h2d",),
    "COMPUTE_BOUND": ("forward", "backward", "optimizer"),
    "RESIDUAL_HEAVY": ("batch_prep", "communication", "clip", "callbacks", "user", "other"),
    "OPTIMIZER_HEAVY": ("optimizer",),
    "BACKWARD_HEAVY": ("backward",),
    "EPOCH_START_COST": ("epoch_boundary", "input_wait"),
    "EVALUATION_COST": ("evaluation",),
    "CHECKPOINT_COST": ("checkpoint",),
    "LOGGING_COST": ("logging",),
    "GAP": ("gap",),
    "COMM_BOUND": ("communication", "gradient_sync"),
    "EXPOSED_COMM": ("communication", "gradient_sync"),
}
_SMALL: Final = 0.005
_MOST_BARS: Final = 12
_EIGHTHS: Final = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# What a name does not say by itself; the rest of the chart is in the documentation of the accounts.
GLOSSES: Final[Mapping[str, str]] = {
    "batch_prep": "between fetch and forward",
    "other": "inside the step, in no phase or mark",
    "gap": "between steps, in no mark",
    "epoch_boundary": "making loader iterators and workers",
    "aborted": "steps that were dropped",
    "startup": "up to the first batch request",
    "shutdown": "after the last step",
}


def apportion(values: Sequence[int], units: int) -> list[int]:
    """Share out `units` in proportion to `values`, so that the parts add to `units` exactly.

    The method is that of the largest remainder; among equals the earlier one wins.
    """
    total = sum(values)
    if total <= 0:
        return [0] * len(values)
    parts = [value * units // total for value in values]
    remainders = [value * units % total for value in values]
    order = sorted(range(len(values)), key=lambda index: (-remainders[index], index))
    for index in order[: units - sum(parts)]:
        parts[index] += 1
    return parts


def shares(values: Sequence[int]) -> list[str]:
    """Give each value's share of their sum, rounded so that the printed shares add to 100.0 %."""
    return [f"{part // 10}.{part % 10} %" for part in apportion(values, 1000)]


def durations(nanoseconds: Sequence[int]) -> list[str]:
    """Give a column of times in one unit, rounded so that they add to their printed sum."""
    total = sum(nanoseconds)
    if total < 1_000_000_000:
        return [f"{part / 100:.2f} ms" for part in apportion(nanoseconds, round(total / 10_000))]
    if total < 100_000_000_000:
        return [f"{part / 100:.2f} s" for part in apportion(nanoseconds, round(total / 10_000_000))]
    if total < 1_000_000_000_000:
        return [f"{part / 10:.1f} s" for part in apportion(nanoseconds, round(total / 100_000_000))]
    parts = apportion(nanoseconds, round(total / 1_000_000_000))
    return [f"{part // 3600}:{part // 60 % 60:02d}:{part % 60:02d}" for part in parts]


def fold(accounts: object) -> list[tuple[str, int, str]]:
    """Give (name, nanoseconds, names folded into it) by time, the small ones as one row at the end.

    Args:
        accounts: Nanoseconds by account; anything else gives no rows.
    """
    if not isinstance(accounts, Mapping):
        return []
    found = [(clean(name, 19), int(finite(ns) or 0)) for name, ns in accounts.items()]
    ordered = sorted(found, key=lambda row: (-row[1], row[0]))
    total = sum(ns for _, ns in ordered)
    large = [row for row in ordered[:_MOST_BARS] if row[1] >= _SMALL * total]
    small = ordered[len(large) :]
    if len(small) == 1:
        large, small = ordered, []
    rows = [(name, ns, "") for name, ns in large]
    if small:
        names = ", ".join(name for name, _ in small)
        rows.append((f"{len(small)} smaller accounts", sum(ns for _, ns in small), names))
    return rows


def bar(fraction: float, width: int, texture: str = "█") -> str:
    """Give a bar of `width` characters, filled to `fraction`; whatever is above 0 shows a sliver."""
    eighths = max(1, round(fraction * width * 8)) if fraction > 0 else 0
    if texture == "█":
        return (texture * (eighths // 8) + _EIGHTHS[eighths % 8]).ljust(width)
    return (texture * round(eighths / 8) or _EIGHTHS[min(eighths, 4)]).ljust(width)


def notes(summary: object, rows: Sequence[tuple[str, int, str]], hidden: str) -> str:
    """Give what the bars leave unsaid, joined: first fetches, glosses of shown names, `hidden` ones.

    Args:
        summary: The whole summary.
        rows: What `fold` gave.
        hidden: Names that were folded and found no room on their bar.
    """
    shown = [name for name, _, folded in rows if not folded]
    told = [f"{name}: {GLOSSES[name]}" for name in shown if name in GLOSSES]
    if clean(dig(summary, "step_time", "clock")) == "device":
        told.append("this is the host's time: it waits for the device's work where it meets it")
    first = first_fetches_s(summary)
    if first and "input_wait" in shown:
        told.insert(0, f"input_wait: of which {seconds(first)} in first fetches of epochs")
    if hidden:
        told.append(f"smaller: {hidden}")
    return " · ".join(told)


def first_fetches_s(summary: object) -> float:
    """Give what first fetches of epochs took beyond a steady one; 0 if no finding is about it."""
    found = dig(summary, "findings")
    for entry in found if isinstance(found, list) else ():
        if dig(entry, "kind") == "EPOCH_START_COST":
            return finite(dig(entry, "evidence", "first_fetch_excess_s")) or 0.0
    return 0.0


def blamed(summary: object) -> tuple[str, ...]:
    """Give the accounts that the verdict is about; input_wait only if its first fetches count."""
    names = BLAMED.get(clean(dig(summary, "verdict", "kind")), ())
    if "epoch_boundary" in names and not first_fetches_s(summary):
        return ("epoch_boundary",)
    return names
