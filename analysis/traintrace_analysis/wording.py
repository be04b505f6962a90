"""Numbers as a person reads them: the one place that knows how, for findings and for the report."""

import math
from collections.abc import Sequence


def number(value: float) -> str:
    """Write three significant digits, with thousands separated: 0.0412, 4.12, 41.2, 4,120."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def any_number(value: float) -> str:
    """Write three significant digits, with a power of ten for what is far from everyday size: 4.12, 1e-09."""
    return number(value) if 1e-3 <= abs(value) < 1e6 or value == 0 else f"{value:.3g}"


def count(value: float, noun: str) -> str:
    """Write "1 step" or "1,204 steps"."""
    return f"{value:,.0f} {noun}" if value == 1 else f"{value:,.0f} {noun}s"


def seconds(value: float) -> str:
    """Write a length of time in the unit that suits it, from "31.0 us" to "3 h 12 min"."""
    size = abs(value)
    if size == 0:
        return "0 s"
    if size < 0.000_999_5:
        return f"{number(value * 1e6)} us"
    if size < 0.999_5:
        return f"{number(value * 1e3)} ms"
    if size < 99.95:
        return f"{number(value)} s"
    whole = round(value)
    if size < 3_600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def milliseconds(value: float) -> str:
    """Write a length of time that is given in milliseconds, as `seconds` does."""
    return seconds(value / 1e3)


def size(value: float) -> str:
    """Write an amount of memory in decimal units, from "412 kB" to "37.2 GB"."""
    for power, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if abs(value) >= 0.999_5 * power:
            return f"{number(value / power)} {unit}"
    return f"{number(value / 1e3)} kB"


def operations(value: float) -> str:
    """Write an amount of floating-point work, from "412 kFLOP" to "37.2 PFLOP"."""
    for power, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= 0.999_5 * power:
            return f"{any_number(value / power)} {unit}FLOP"
    return f"{any_number(value / 1e3)} kFLOP"


def exact_percent(share: float) -> str:
    """Write a share of 1 for a table: "41.2 %", "0.04 %", "<0.01 %"."""
    value = 100 * share
    if 0 < value < 0.01:
        return "<0.01 %"
    return f"{value:.2f} %" if 0 < value < 0.1 else f"{value:.1f} %"


def capped_percent(share: float) -> str:
    """Write a share that cannot be more than 1 and is: beyond ten times that its size says nothing more."""
    if abs(share) <= 10.0:
        return exact_percent(share) if share >= 0.0 else f"-{exact_percent(-share)}"
    return "over 1,000 %" if share > 0.0 else "under -1,000 %"


def percent(share: float) -> str:
    """Write a share of 1 for a sentence: a whole percentage from 10 % on; only the whole is 100 %."""
    if 0.995 <= share < 1.0:
        return f"{math.floor(1000 * share) / 10:.1f} %"
    return f"{share * 100:.0f} %" if share >= 0.0995 else exact_percent(share)


def quantity(value: float, unit: str) -> str:
    """Write a limit with its unit: "10 %", "2 ms", "0.5 log", "1.4 GB/s"."""
    if unit == "share":
        return percent(value)
    if unit.startswith("bytes"):
        return size(value) + unit.removeprefix("bytes")
    text = f"{value:,.0f}" if value == round(value) else number(value)
    return f"{text.rstrip('0') if '.' in text else text} {unit}"


def listed(names: Sequence[str]) -> str:
    """Write names as "a, b and c"."""
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
