"""Ask torch and the plugins in a process of their own: nothing of them is loaded here."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

_DEADLINE_S: Final = 300.0
_PROBE: Final = "traintrace_reporting.doctor.probe"


def ask_torch_and_plugins(
    plugins: Sequence[Mapping[str, str | None]], deadline_s: float = _DEADLINE_S
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give what torch says of this machine, and the state of each plugin's seams.

    Args:
        plugins: What the entry points say: `trigger`, `attach`, ...
        deadline_s: Seconds after which no answer is waited for any more.
    """
    questions: list[list[str | None]] = [
        ["torch"],
        *(["plugin", one["trigger"], one["attach"]] for one in plugins),
    ]
    answers = _ask(questions, deadline_s)
    states = zip(plugins, answers[1:], strict=True)
    return answers[0], [{"trigger": plugin["trigger"], **answer} for plugin, answer in states]


def _ask(questions: Sequence[Sequence[str | None]], deadline_s: float) -> list[dict[str, Any]]:
    """Give the answer to each question; `error` says why there is none."""
    command = [sys.executable, "-m", _PROBE, json.dumps(questions)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        printed, errors = process.communicate(timeout=deadline_s)
        why = (errors.strip().splitlines() or [f"it ended with code {process.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        process.kill()
        printed, _ = process.communicate()
        why = f"no answer within {deadline_s:.0f} s"
    answers = [dict(json.loads(line[1:])) for line in printed.splitlines() if line[:1] == "\t"]
    missing = [{"error": why, "state": "broken"} for _ in questions[len(answers) :]]
    return answers + missing
