"""The standard library's own tests of queues pass on followed ones; see `standard_library`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("test.test_queue", reason="this Python comes without its own tests")

ROOT = Path(__file__).parents[2]
# Module, which tests of it, how many there are at least, and how many items went through followed queues.
TESTS = {
    "queue": (["test.test_queue"], 50, 60_000),
    "queues of before": (["midway:test.test_queue"], 50, 60_000),
    "asyncio": (["test.test_asyncio.test_queues"], 40, 300),
    "asyncio of before": (["midway:test.test_asyncio.test_queues"], 40, 300),
    "fork": (["tests.stages.stdlib_fork", "Queue"], 25, 60),
}
SPAWN = (["tests.stages.stdlib_spawn", "Queue"], 25, 60)


def started(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stages.standard_library", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )


def check(process: subprocess.Popen[str], tests: int, puts: int) -> None:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    ran = re.search(r"ran (\d+), skipped (\d+); puts (.*)", output)
    assert ran is not None, output
    assert int(ran[1]) - int(ran[2]) >= tests
    assert sum(map(int, re.findall(r": (\d+)", ran[3]))) >= puts


def test_tests_of_queues_pass_on_followed_ones() -> None:
    # At once: most of their time they sleep.
    processes = {name: started(arguments) for name, (arguments, _, _) in TESTS.items()}
    for name, (_, tests, puts) in TESTS.items():
        check(processes[name], tests, puts)


@pytest.mark.long
def test_tests_of_queues_pass_in_spawned_processes() -> None:
    arguments, tests, puts = SPAWN
    check(started(arguments), tests, puts)
