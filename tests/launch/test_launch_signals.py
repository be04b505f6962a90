"""Signals reach training once, whoever sends them and to whom."""

import fcntl
import os
import signal
import subprocess
import termios
import textwrap
import time
from pathlib import Path

import pytest

from tests.launch.launchlab import (
    PYTHON,
    SLEEPS,
    eventually,
    group_of,
    in_one_of_three,
    launcher,
    lives,
    ready,
    run,
    script,
    start,
    variables,
)
from tests.launch.launchlab import end_of as end

# Counts each signal, and ends some time after the last: a second one would be seen.
COUNTS = """
    import os, signal, sys, time
    seen, last, quiet_s = [], [time.monotonic()], float(os.environ.get("QUIET_S", "0.5"))
    def count(number, frame):
        seen.append(number)
        last[0] = time.monotonic()
    for number in map(int, sys.argv[1:]):
        signal.signal(number, count)
    print("ready", os.getpid(), flush=True)
    while not seen or time.monotonic() < last[0] + quiet_s:
        time.sleep(0.01)
    print(sorted(seen))
    sys.exit(7)
"""
ALL = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
NUMBERS = sorted(int(number) for number in ALL)


def counting(folder: Path, quiet_s: float = 0.5) -> "subprocess.Popen[str]":
    words = launcher(script(folder, COUNTS), *map(str, NUMBERS))
    job = start(folder, words, env=variables() | {"QUIET_S": str(quiet_s)})
    ready(job)
    return job


def test_what_is_sent_to_the_launcher_alone_is_passed_on_once(tmp_path: Path) -> None:
    job = counting(
        tmp_path, quiet_s=2.0
    )  # each is passed on on its own, and a busy machine takes its time
    for number in ALL:
        os.kill(job.pid, number)
    ended = end(job)
    assert ended == (7, f"{NUMBERS}\n", "ended 7 None\n")


def test_what_is_sent_to_the_group_is_not_passed_on(tmp_path: Path) -> None:
    def attempt(folder: Path) -> None:
        job = counting(folder)
        for number in ALL:
            os.killpg(job.pid, number)
        assert end(job) == (7, f"{NUMBERS}\n", "ended 7 None\n")

    in_one_of_three(tmp_path, attempt)


@pytest.mark.parametrize("launcher_first", [True, False])
def test_what_is_sent_to_each_process_in_turn_is_not_passed_on(
    launcher_first: bool, tmp_path: Path
) -> None:
    def attempt(folder: Path) -> None:
        job = counting(folder)  # as Slurm does
        for member in sorted(group_of(job.pid), reverse=not launcher_first):
            os.kill(member, signal.SIGTERM)
            time.sleep(0.01)
        assert end(job).output == f"[{int(signal.SIGTERM)}]\n"

    in_one_of_three(tmp_path, attempt)


def test_one_to_the_launcher_and_then_to_all_arrives_once(tmp_path: Path) -> None:
    def attempt(folder: Path) -> None:
        job = counting(folder)  # as `timeout` does
        os.kill(job.pid, signal.SIGTERM)
        os.killpg(job.pid, signal.SIGTERM)
        assert end(job).output == f"[{int(signal.SIGTERM)}]\n"

    in_one_of_three(tmp_path, attempt)


def test_a_group_signal_does_not_hide_a_later_one(tmp_path: Path) -> None:
    job = counting(tmp_path, quiet_s=2.0)
    os.killpg(job.pid, signal.SIGUSR1)
    time.sleep(0.25)
    os.kill(job.pid, signal.SIGUSR1)
    assert end(job).output == f"{[int(signal.SIGUSR1)] * 2}\n"


def test_what_comes_before_the_program_is_there_waits_for_it(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from traintrace.launch.supervise import supervise
        pending = signal.sigpending
        def interrupted():  # the last thing before the program is started
            os.killpg(0, signal.SIGTERM)
            return pending()
        signal.sigpending = interrupted
        print(supervise([sys.executable, "-c", "import time; time.sleep(600)"]))
    """
    (tmp_path / "launcher.py").write_text(textwrap.dedent(program), "utf-8")
    ended = run(tmp_path, [PYTHON, "launcher.py"])
    assert ended == (0, "Ended(exit_code=143, signal=15)\n", "")


def test_a_program_that_left_the_group_gets_what_the_group_got(tmp_path: Path) -> None:
    job = start(
        tmp_path,
        launcher(script(tmp_path, f"import os\nos.setsid()\n{textwrap.dedent(COUNTS)}"), "15"),
    )
    ready(job)
    os.killpg(job.pid, signal.SIGTERM)
    assert end(job).output == "[15]\n"


@pytest.mark.parametrize("number", ALL)
def test_a_program_that_a_signal_ends_gives_128_and_its_number(
    number: signal.Signals, tmp_path: Path
) -> None:
    source = f"import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n{textwrap.dedent(SLEEPS)}"
    job = start(tmp_path, launcher(script(tmp_path, source)))
    ready(job)
    os.kill(job.pid, number)
    ended = end(job)
    assert ended.code == 128 + number
    assert ended.error.endswith(f"ended {128 + number} {int(number)}\n")
    assert ("KeyboardInterrupt" in ended.error) == (number == signal.SIGINT)


def test_ctrl_c_at_a_terminal_reaches_training_once(tmp_path: Path) -> None:
    master, terminal = os.openpty()
    job = start(
        tmp_path,
        launcher(script(tmp_path, COUNTS + "    print(os.isatty(0))\n"), "2"),
        stdin=terminal,
        preexec_fn=lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 0),
    )
    try:
        ready(job)
        os.write(master, b"\x03")
        assert job.wait(60) == 7
        assert end(job).output == "[2]\n"
    finally:
        os.close(master)
        os.close(terminal)


def test_what_the_launcher_was_told_to_ignore_training_ignores_too(tmp_path: Path) -> None:
    source = """
        import os, signal, time
        print("ready", os.getpid(), flush=True)
        time.sleep(0.6)
        print([signal.getsignal(n).name for n in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)])
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """

    def like_nohup_in_the_background() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    job = start(
        tmp_path, launcher(script(tmp_path, source)), preexec_fn=like_nohup_in_the_background
    )
    ready(job)
    os.kill(job.pid, signal.SIGHUP)
    os.killpg(job.pid, signal.SIGINT)
    ended = end(job)
    assert ended[:2] == (0, "['SIG_IGN', 'SIG_IGN', 'SIG_DFL']\nset()\n")


def test_a_grace_period_is_trainings_to_use(tmp_path: Path) -> None:
    source = """
        import os, signal, sys, time
        def save(number, frame):
            time.sleep(0.7)
            print("saved", flush=True)
            sys.exit(9)
        signal.signal(signal.SIGTERM, save)
        print("ready", os.getpid(), flush=True)
        time.sleep(600)
    """
    job = start(tmp_path, launcher(script(tmp_path, source)))
    ready(job)
    os.kill(job.pid, signal.SIGTERM)
    assert end(job) == (9, "saved\n", "ended 9 None\n")


def test_without_a_witness_interrupts_are_taken_for_everybodys(tmp_path: Path) -> None:
    job = counting(
        tmp_path, quiet_s=2.0
    )  # each is passed on on its own, and a busy machine takes its time
    witness = next(pid for pid in group_of(job.pid) if "witness.py" in command_of(pid))
    os.kill(witness, signal.SIGKILL)
    eventually(lambda: not lives(witness))
    os.kill(job.pid, signal.SIGTERM)
    os.kill(job.pid, signal.SIGINT)
    assert end(job).output == "[15]\n"


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text("utf-8")
