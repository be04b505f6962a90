"""One decision of `traintrace guard pairs` about real training, and the figures of many."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Code = Literal["same", "slower"]
Json: TypeAlias = dict[str, Any]

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
SHARE: Final = 0.1  # of a step, added to the backward of slower code
_TRAINED: Final = "--fast --epochs 3"
_DECIDED: Final = (0, 3, 4)


class Gate(NamedTuple):
    """One decision.

    Attributes:
        code: What B was: the "same" command as A, or one with a "slower" backward.
        decision: FAIL, PASS or INCONCLUSIVE, after so many `pairs`.
        ratio: Step time of B over that of A.
        smallest_detectable: The least slowdown that such pairs would show 8 times in 10; a share.
        phase: What was blamed; None unless it failed and one phase is beyond chance.
        seconds: How long all of it took.
    """

    code: Code
    decision: str
    pairs: int
    ratio: float
    smallest_detectable: float
    phase: str | None
    seconds: float


def commands(code: Code) -> tuple[str, str]:
    """Give what is trained on either side: one example twice, or beside it one that is slower."""
    plain = f"{EXAMPLES / 'digits_plain.py'} {_TRAINED}"
    slower = f"{EXAMPLES / 'digits_slower.py'} --share {SHARE} {_TRAINED}"
    return plain, plain if code == "same" else slower


def decide(code: Code, most_pairs: int) -> Gate:
    """Let the command decide, with a process for every run.

    Raises:
        RuntimeError: It did not come to a decision; its message is in the text.
    """
    a, b = commands(code)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as runs:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "traintrace_reporting", "guard", "pairs", "--json"),
                *("--a", a, "--b", b, "--run-dir", runs, "--max-pairs", str(most_pairs)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    content = decision_in(done.returncode, done.stdout, done.stderr)
    return gate_of(code, content, time.monotonic() - begun)


def decision_in(exit_code: int, output: str, messages: str) -> Json:
    """Give the JSON that the command printed."""
    if exit_code not in _DECIDED:
        raise RuntimeError(f"exit code {exit_code}: {messages}")
    content: Json = json.loads(output)
    return content


def gate_of(code: Code, content: Mapping[str, Any], seconds: float) -> Gate:
    """Take from the command's JSON what counts here."""
    if content["ratio"] is None:
        raise RuntimeError(f"no decision: {content['headline']}")
    return Gate(
        code,
        content["decision"],
        content["pairs"],
        round(content["ratio"], 4),
        round(content["smallest_detectable"], 4),
        content["phase"],
        round(seconds, 1),
    )


def figures_of(gates: Sequence[Gate]) -> Json:
    """Sum up; `good` is: no false FAIL, and every slower backward found and blamed."""
    same = [gate for gate in gates if gate.code == "same"]
    slower = [gate for gate in gates if gate.code == "slower"]
    false_fails = sum(gate.decision == "FAIL" for gate in same)
    blamed = Counter(gate.phase or "none" for gate in slower if gate.decision == "FAIL")
    return {
        "good": bool(gates) and not false_fails and blamed["backward"] == len(slower),
        "same": {**_figures(same), "false_fails": false_fails},
        "slower": {
            **_figures(slower),
            "share": SHARE,
            "found": sum(blamed.values()),
            "blamed": dict(blamed),
        },
    }


def _figures(gates: Sequence[Gate]) -> Json:
    decisions = Counter(gate.decision for gate in gates)
    figures: Json = {"gates": len(gates)}
    figures |= {name: decisions[name] for name in ("FAIL", "PASS", "INCONCLUSIVE")}
    if gates:
        ratios = [gate.ratio for gate in gates]
        figures |= {
            "pairs": sum(gate.pairs for gate in gates),
            "pairs_median": statistics.median(gate.pairs for gate in gates),
            "ratio_min": min(ratios),
            "ratio_median": round(statistics.median(ratios), 4),
            "ratio_max": max(ratios),
            "smallest_detectable_median": round(
                statistics.median(gate.smallest_detectable for gate in gates), 4
            ),
            "seconds_median": statistics.median(gate.seconds for gate in gates),
        }
    return figures


def write_table(figures: Json) -> str:
    """Write the figures as a table in Markdown."""
    lines = [
        "| B is | decisions | FAIL | PASS | INCONCLUSIVE | pairs, median | B over A | could see, median |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = {"same": "the same code", "slower": f"slower by {100 * SHARE:g} %, in backward"}
    for code, name in names.items():
        one = figures[code]
        if one["gates"]:
            lines.append(
                f"| {name} | {one['gates']} | {one['FAIL']} | {one['PASS']} | {one['INCONCLUSIVE']} "
                f"| {one['pairs_median']:g} | {one['ratio_min']:.3f} to {one['ratio_max']:.3f} "
                f"| {100 * one['smallest_detectable_median']:.2g} % |"
            )
    blamed = ", ".join(f"{name} {count}" for name, count in figures["slower"]["blamed"].items())
    told = [f"False alarms: {figures['same']['false_fails']} of {figures['same']['gates']}."]
    if figures["slower"]["gates"]:
        told.append(f"Blamed: {blamed or 'nothing'}.")
    return "\n".join([*lines, "", " ".join(told)])
