"""Turn running totals into amounts since the reading before, and refuse what cannot be."""


class Counter:
    """One running total, e.g. bytes read since the machine's start."""

    def __init__(self) -> None:
        self._last: int | None = None

    def advance(self, total: int | None, at_most: int | None = None) -> int | None:
        """Take the total now and give the amount since the last.

        Args:
            total: None if it could not be read; then the next amount is None too.
            at_most: The largest amount that is physically possible; None if there is no such bound.

        Returns:
            None at first, if the total fell (it started over), and if the amount is impossible.
        """
        before, self._last = self._last, total
        if before is None or total is None:
            return None
        return within(total - before, at_most)


class Rate:
    """One running total of CPU time, as cores that were busy on average.

    A total that falls is kept out, and the next reading spans both intervals: the list of a process's
    children may miss one while another ends. One that falls twice has started over.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._has_fallen = False

    def advance(
        self, total_ns: int | None, at_ns: int, most_cores: float, slack_ns: int = 0
    ) -> float | None:
        """Take the total at a moment and give the cores since the last.

        Args:
            total_ns: None if it could not be read.
            at_ns: The moment to which it belongs.
            most_cores: Cores that there are.
            slack_ns: By how much the total may be off, at most.
        """
        if total_ns is None:
            return None
        before, last = self._last, (total_ns, at_ns)
        if before is not None and total_ns < before[0] and not self._has_fallen:
            self._has_fallen = True
            return None
        self._last, self._has_fallen = last, False
        if before is None or at_ns <= before[1]:
            return None
        interval = at_ns - before[1]
        busy = within(total_ns - before[0], round(interval * most_cores) + slack_ns)
        return None if busy is None else busy / interval


def within(amount: int, at_most: int | None) -> int | None:
    """Give `amount` if it lies between 0 and `at_most`, else None."""
    return None if amount < 0 or (at_most is not None and amount > at_most) else amount
