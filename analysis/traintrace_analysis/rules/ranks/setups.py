"""How the set-up of some ranks differs from that of the others: often the whole cause."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from traintrace.facts import RankFacts, Setup
from traintrace_analysis.wording import listed

# What a rank's pace depends on, and how it is told.
_FIELDS: Final[Mapping[str, Callable[[Setup], object]]] = {
    "device": lambda setup: setup.device_kind,
    "device name": lambda setup: setup.device_name,
    "precision": lambda setup: setup.precision,
    "compiled": lambda setup: setup.compiled,
    "batch size": lambda setup: setup.batch_size,
    "accumulation": lambda setup: setup.accumulation,
    "loader workers": lambda setup: setup.loader.workers,
    "pinned memory": lambda setup: setup.loader.pin_memory,
    "OMP threads": lambda setup: setup.omp_threads,
    "CPUs": lambda setup: setup.cpu_count,
}


def setup_differences(facts: Sequence[RankFacts], ranks: Sequence[int]) -> list[str]:
    """Name the settings that `ranks` have in common and most of the other ranks have otherwise.

    Returns:
        Each as "device cpu instead of cuda"; what either side does not tell is left out.
    """
    mine = [one.setup for one in facts if one.rank in ranks]
    others = [one.setup for one in facts if one.rank not in ranks]
    found: dict[str, str] = {}
    for name, read in _FIELDS.items():
        own = {read(setup) for setup in mine}
        usual = Counter(value for setup in others if (value := read(setup)) is not None)
        if len(own) != 1 or None in own or not usual:
            continue
        value, (common, times) = own.pop(), usual.most_common(1)[0]
        if value != common and 2 * times > len(others):
            found[name] = f"{name} {_told(value)} instead of {_told(common)}"
    if "device" in found:
        found.pop("device name", None)  # another kind of device has another name
    return list(found.values())


def differences_text(differences: Sequence[str], *, several: bool) -> str:
    """Say that set-ups differ, as a sentence to append; "" if they do not."""
    whose = "Their" if several else "Its"
    return (
        f" {whose} set-up is not that of the others: {listed(differences)}." if differences else ""
    )


def alignment_action(differences: Sequence[str], who: str) -> str:
    """Say what to do first where set-ups differ, to precede other advice; "" if they do not."""
    return (
        f"First give {who} the set-up of the others ({listed(differences)}). "
        if differences
        else ""
    )


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
