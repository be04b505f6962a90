"""The digits again, with a backward that makes every step 10 % slower: a change that a guard must find.

traintrace guard pairs --a 'examples/digits_plain.py --fast' --b 'examples/digits_slower.py --fast'
"""

import argparse
import time

import digits_plain
import torch
from digits import Net, parse_settings


class Slower:
    """Called at the end of every backward; computes until the step has become longer by `share` of itself.

    Counted is what this thread computes and not the clock on the wall, on which other programs put time too.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._ended = time.thread_time()

    def __call__(self, _: torch.Tensor) -> None:
        """Compute: from the end of the last call to now lies exactly one step without any."""
        now = time.thread_time()
        until = now + self._share * (now - self._ended)
        while time.thread_time() < until:
            pass
        self._ended = time.thread_time()


def slow_down(share: float) -> None:
    """Let `digits_plain.py` train a network whose backward is slower."""

    class SlowerNet(Net):
        def __init__(self) -> None:
            super().__init__()
            first = next(self.parameters())  # backward reaches it last
            first.register_hook(Slower(share))  # type: ignore[no-untyped-call]

    digits_plain.Net = SlowerNet  # type: ignore[attr-defined]  # it is how the example calls its network


def main() -> None:
    """Train as `digits_plain.py` does, with the same options and `--share`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], add_help=False)
    parser.add_argument("--share", type=float, default=0.1, help="of the step, added to backward")
    own, others = parser.parse_known_args()
    slow_down(own.share)
    digits_plain.train(parse_settings(__doc__ or "", others))


if __name__ == "__main__":
    main()
