"""The report's lines on how training went."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType

from traintrace_reporting import format as plain
from traintrace_reporting import layout
from traintrace_reporting.format import clean, dig, finite

_LABEL: Final = 17
_NAMED: Final = 3
_WORTH_TELLING: Final = 0.1  # of the variance; less is not what makes steps differ


def rows(summary: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Give what the report prints; nothing if no loss and no gradient norm was logged."""
    found = dig(summary, "convergence")
    told = list(_told(found))
    if not told:
        return
    rank = clean(dig(found, "rank"), 5) if layout.has_ranks(summary) else ""
    note = f"as rank {rank} logged it" if rank else "as it was logged"
    yield layout.heading("How training went", note, width)
    for label, text in told:
        yield layout.labelled(f"  {label}", text, width, _LABEL)


def _told(found: object) -> Iterator[tuple[str, str]]:
    learning = [
        (label, dig(found, key))
        for label, key in (("loss", "loss"), ("gradient norm", "grad_norm"))
    ]
    for label, course in learning:
        if isinstance(course, Mapping) and finite(dig(course, "values_count")):
            yield label, _course_text(course)
    others = dig(found, "others")
    for course in others if isinstance(others, Sequence) and not isinstance(others, str) else ():
        if dig(course, "role") == "evaluation_loss":
            yield clean(dig(course, "name"), _LABEL - 4), _course_text(course)
            break
    if any(isinstance(course, Mapping) for _, course in learning):
        meeting = _meeting_text(found)
        if meeting:
            yield "together", meeting
    explained = _explained_text(dig(found, "step_time_explained"))
    if explained:
        yield "step time", explained


def _course_text(course: object) -> str:
    first, last = finite(dig(course, "first")), finite(dig(course, "last"))
    name = clean(dig(course, "name"), 30)
    parts = []
    if first is None or last is None:
        parts.append("no value was finite")
    else:
        trend = {"falling": "falls", "rising": "rises", "flat": "level"}.get(
            clean(dig(course, "trend")), ""
        )
        parts.append(plain.joined((f"{_value(first)} to {_value(last)}", trend), ", "))
        lowest = finite(dig(course, "lowest"))
        if lowest is not None and dig(course, "role") != "grad_norm":
            parts.append(f"best {_value(lowest)} at step {_step(dig(course, 'lowest_step'))}")
    lost = finite(dig(course, "lost_at_step"))
    rose = finite(dig(course, "rose_at_step"))
    if lost is not None:
        parts.append(f"infinite or NaN from step {_step(lost)} on")
    elif rose is not None:
        parts.append(f"up since step {_step(rose)}")
    level = finite(dig(course, "level_since_step"))
    if level is not None:
        parts.append(f"no lower since step {_step(level)}")
    parts.append(_spikes_text(course))
    return plain.joined((*parts, f"`{name}`" if name else ""))


def _spikes_text(course: object) -> str:
    count, spikes = finite(dig(course, "spikes_count")), dig(course, "spikes")
    if not count or not isinstance(spikes, Sequence):
        return ""
    steps = [_step(dig(spike, "peak_step")) for spike in spikes[:_NAMED]]
    more = f" and {count - len(steps):,.0f} more" if count > len(steps) else ""
    return f"{'spike' if count == 1 else 'spikes'} at step {', '.join(steps)}{more}"


def _meeting_text(found: object) -> str:
    meetings = dig(found, "meetings")
    if not isinstance(meetings, Sequence) or isinstance(meetings, str) or not meetings:
        return ""
    names = dig(meetings[0], "signals")
    told = " + ".join(clean(name, 14) for name in names) if isinstance(names, Sequence) else ""
    count = finite(dig(found, "meetings_count")) or 1
    more = f" · and {count - 1:,.0f} more" if count > 1 else ""
    return f"{told} at step {_step(dig(meetings[0], 'first_step'))}{more}"


def _explained_text(explained: object) -> str:
    share, spread = finite(dig(explained, "share")), finite(dig(explained, "amount_spread_share"))
    if share is None or share < _WORTH_TELLING or spread is None or spread < 0.01:
        return ""
    amount = clean(dig(explained, "amount"), 20).replace("_", " ")
    low, high = finite(dig(explained, "share_low")), finite(dig(explained, "share_high"))
    between = "" if low is None or high is None else f" ({100 * low:.0f} to {100 * high:.0f} %)"
    padding = finite(dig(explained, "padding_share"))
    return plain.joined(
        (
            f"{amount} explain {100 * share:.0f} %{between} of its variance",
            "" if padding is None else f"{plain.percent(padding)} of the tokens are padding",
        )
    )


def _value(number: float) -> str:
    """Write a logged value: three digits, as a power of ten where it is huge or tiny."""
    size = abs(number)
    return f"{number:.3g}" if size and not 1e-4 <= size < 1e6 else plain.number(number)


def _step(value: object) -> str:
    found = finite(value)
    return "?" if found is None else f"{found:,.0f}"
