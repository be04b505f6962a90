"""The names of a run's regions, by the numbers that the journal writes."""

from typing import Final

# Names beyond this many share one: a name made from a counter must not grow for ever.
MAX_REGIONS: Final = 1_000
OTHER_REGIONS: Final = "(other regions)"


class RegionNames:
    """Gives each name a number, in the order in which they come.

    Attributes:
        names: The names by number; it only grows, so that the drain may read it at any time.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number_of(self, name: str) -> int:
        """Give the number of the region called `name`."""
        number = self._numbers.get(name)
        if number is None:
            if len(self.names) >= MAX_REGIONS:
                name = OTHER_REGIONS
            number = self._numbers.setdefault(name, len(self.names))
            if number == len(self.names):
                self.names.append(name)
        return number
