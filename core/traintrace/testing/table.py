"""The table of truth against measured, as plain text."""

from collections.abc import Iterable, Sequence

from traintrace.testing.checking import Row


def table_of(rows: Iterable[Row]) -> str:
    """Give a line per account, and one per count that is wrong; right counts are summed up in one."""
    rows = list(rows)
    shown = [row for row in rows if row.unit == "ms/step" or not row.is_right]
    lines = []
    if shown:
        lines.append(f"{'ms per step':<44}{'truth':>9}{'measured':>10}{'diff':>9}  verdict")
    lines += map(_line, shown)
    lines.append(f"{len(rows) - len(shown)} counts exact")
    return "\n".join(lines)


def _line(row: Row) -> str:
    digits = 3 if row.unit == "ms/step" else 0
    shown = [row.truth, row.measured, row.difference]
    if row.verdict == "not measured":
        shown = [None, None, None]
    cells = ["-" if value is None else f"{value:.{digits}f}" for value in shown]
    return f"{row.name:<44}{cells[0]:>9}{cells[1]:>10}{cells[2]:>9}  {row.verdict}"


def worst_of(tables: Sequence[Sequence[Row]]) -> list[Row]:
    """Give for each name the row that is wrong, or else has the largest difference."""
    worst: dict[str, Row] = {}
    for row in (row for rows in tables for row in rows):
        known = worst.get(row.name)
        if known is None or _badness(row) > _badness(known):
            worst[row.name] = row
    return list(worst.values())


def _badness(row: Row) -> tuple[bool, float]:
    return not row.is_right, abs(row.difference or 0)
