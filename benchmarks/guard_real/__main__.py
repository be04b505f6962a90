"""How the guard decides about real training: `python -m benchmarks.guard_real [--json] [--same N] [--slower N]`.

The digits example is trained in pairs by `traintrace guard pairs`: against itself, which must never
FAIL, and against itself with a backward that makes every step 10 % slower, which must FAIL and be
blamed on backward. A decision takes 8 to 24 trainings of about 5 s each.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.guard_real.gates import Code, Gate, decide, figures_of, write_table


def main() -> None:
    """Decide many times and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--same", type=int, default=20, help="decisions about the same code")
    parser.add_argument("--slower", type=int, default=5, help="decisions about slower code")
    parser.add_argument("--max-pairs", type=int, choices=(4, 6, 9, 12), default=12)
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="add decisions to FILE, a line each, and sum up all in it: go on later where this stops",
    )
    options = parser.parse_args()
    gates = _kept(options.keep)
    wanted: dict[Code, int] = {"same": options.same, "slower": options.slower}
    for code, number in wanted.items():
        for _ in range(number - sum(gate.code == code for gate in gates)):
            gate = decide(code, options.max_pairs)
            gates.append(gate)
            print(*gate, file=sys.stderr, flush=True)
            if options.keep is not None:
                with options.keep.open("a", encoding="utf-8") as file:
                    print(json.dumps(gate._asdict()), file=file)
    figures = figures_of(gates)
    print(json.dumps(figures, indent=2) if options.json else write_table(figures))
    sys.exit(0 if figures["good"] else 1)


def _kept(file: Path | None) -> list[Gate]:
    if file is None or not file.exists():
        return []
    return [Gate(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
