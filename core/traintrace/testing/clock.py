"""A monotonic clock that moves when it is told to."""


class FakeClock:
    """Stands in for `time.perf_counter_ns`; call it to read it.

    Attributes:
        moment: What the clock shows [ns].
    """

    def __init__(self, moment: int = 1_000_000) -> None:
        self.moment = moment

    def __call__(self) -> int:
        """Give what the clock shows [ns]."""
        return self.moment

    def advance(self, ns: int) -> None:
        """Let `ns` nanoseconds pass.

        Raises:
            ValueError: `ns` is negative; a monotonic clock never goes back.
        """
        if ns < 0:
            raise ValueError(f"cannot advance by {ns} ns")
        self.moment += ns
