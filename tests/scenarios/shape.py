"""The public shape of a summary: its dotted keys, and which of its values are null."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

# Objects whose keys are data and no names of ours.
_DATA: Final = (
    "by_rank",
    "by_node",
    "left_out",
    "throttle_reason_shares",
    "environment.packages",
    "environment.seeds",
)
# Objects whose keys are public names, and whose values all have one shape.
_ALIKE: Final = ("step_time.metrics", "statistics.metrics", "coverage", "families")
_RANK: Final = re.compile(r"_rank_\d+$")
# What was found is an answer, and how the run was set up is its own affair: their nulls are no pattern
# of ours. Nor are those of coverage: a reason is null where the state beside it says "measured".
_NO_PATTERN: Final = (
    "findings",
    "verdict",
    "families",
    "environment",
    "run",
    "setup",
    "coverage",
)
_METRICS: Final = "step_time.metrics"
_COUNTS: Final = ("clock", "n", "ranks_measured")


def keys_of(summary: Mapping[str, Any]) -> set[str]:
    """Give every dotted key; what belongs to a finding is listed under its kind."""
    return set(_keys(summary, ""))


def nulls_of(summary: Mapping[str, Any]) -> list[str]:
    """Give the dotted path of every null, in order.

    A metric that is null throughout is one entry, and so is a number that all other metrics lack.
    """
    content = {name: value for name, value in summary.items() if name not in _NO_PATTERN}
    found = [path for path in _nulls(content, "") if not path.startswith(f"{_METRICS}.")]
    metrics = summary["step_time"]["metrics"]
    measured = {name: metric for name, metric in metrics.items() if any(_numbers(metric))}
    found += [f"{_METRICS}.{name}" for name in metrics if name not in measured]
    lacking: dict[str, list[str]] = defaultdict(list)
    for name, metric in measured.items():
        for path in _nulls(metric, ""):
            if not path.startswith("tail."):  # whether spikes came, and how regularly, is an answer
                lacking[path].append(name)
    for path, names in lacking.items():
        told = ["*"] if len(names) == len(measured) else names
        found += [f"{_METRICS}.{name}.{path}" for name in told]
    return sorted(found)


def _keys(value: object, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            known = "*" if path.endswith(_DATA) else _RANK.sub("_rank_*", name)
            yield f"{path}.{known}" if path else known
            under = "*" if path in _ALIKE else known
            yield from _keys(item, f"{path}.{under}" if path else under)
    elif isinstance(value, list):
        for item in value:
            kind = item.get("kind", "") if isinstance(item, Mapping) else ""
            yield from _keys(item, f"{path}[{kind}]")


def _nulls(value: object, path: str) -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _nulls(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and all(item is None for item in value):
        yield f"{path}[]"


def _numbers(metric: Mapping[str, Any]) -> Iterator[bool]:
    """Tell of each number of a metric, counts left out, whether it is there."""
    for name, value in metric.items():
        if name == "by_rank":
            yield from (mean is not None for mean in value.values())
        elif name not in _COUNTS:
            yield value is not None
