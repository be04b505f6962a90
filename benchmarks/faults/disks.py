"""Disks that fail: dark in the middle of a write, full, read-only, slow."""

import random
import shutil
import signal
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

from benchmarks.faults import machine
from benchmarks.faults.lab import Lab, Told
from benchmarks.faults.outcome import PATIENCE_S, STEPS, Outcome, check, random_moment

# SQLite's format of a write-ahead log: bytes before the first page, and before each page.
_LOG_HEAD: Final = 32
_PAGE_HEAD: Final = 24


def power_loss(lab: Lab, rng: random.Random) -> Outcome:
    """The machine goes dark while a flush is written: file and log as they were, the log cut in that flush."""
    process = lab.train(lab.workload(steps=STEPS))
    random_moment(lab, rng)
    log = lab.run_folder / "ranks" / "rank-00000.sqlite-wal"
    before = _size(log)
    until = time.monotonic() + 1.5
    while _size(log) == before and time.monotonic() < until and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    end = time.perf_counter_ns()
    dark = lab.folder / "dark"
    shutil.copytree(lab.run_folder, dark, ignore=shutil.ignore_patterns("*-shm"))
    copy = dark / "ranks" / log.name
    if copy.exists():
        # It went dark when the last byte was on its way, which this machine's clock has noted.
        end = min(end, copy.stat().st_mtime_ns - time.time_ns() + time.perf_counter_ns())
        content = copy.read_bytes()
        flushes = ends_of_flushes(content)
        # Stopped in the middle of a flush, the one before it is safe on the disk.
        safe = flushes[-1] if flushes[-1] < len(content) else flushes[-2]
        copy.write_bytes(content[: rng.randint(safe, len(content))])
    lost_s = lab.lost_s(end, folder=dark)
    lab.report(dark, later=True)
    left = [name for name in lab.leftovers(killed=True, folder=dark) if "process" not in name]
    process.send_signal(signal.SIGCONT)
    wrong = check(lab, code=process.wait(PATIENCE_S), expected=0, steps=STEPS)
    return Outcome(lost_s, wrong, left + lab.leftovers(killed=False), "file and log cut")


def ends_of_flushes(log: bytes) -> list[int]:
    """Give where each flush in a write-ahead log ends: SQLite marks the last page of each."""
    page, marks = int.from_bytes(log[8:12], "big"), log[16:24]
    ends = [0, min(_LOG_HEAD, len(log))]
    for at in range(_LOG_HEAD, len(log) - _PAGE_HEAD - page + 1, _PAGE_HEAD + page):
        head = log[at : at + _PAGE_HEAD]
        if head[8:16] != marks:
            break  # older than the log's last start over
        if any(head[4:8]):
            ends.append(at + _PAGE_HEAD + page)
    return ends


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def disk_full(lab: Lab, rng: random.Random) -> Outcome:
    """The disk is full at some flush; training goes on, and its own report has every step."""
    with machine.small_disk(lab.folder / "runs", rng.randint(220, 500)) as how:
        process = lab.train(lab.workload(steps=STEPS, step_ms=2.0))
        code = process.wait(PATIENCE_S)
        wrong = check(lab, code=code, expected=0, steps=STEPS)
        lost_s = _lost_in_own_report(lab)
        lab.report(write=False)
        left = lab.leftovers(killed=True)
    return Outcome(lost_s, wrong, left, how)


def read_only(lab: Lab, rng: random.Random) -> Outcome:
    """The folder for runs is read-only; the run goes where temporary files go."""
    with machine.read_only(lab.folder / "runs") as how:
        process = lab.train(lab.workload(steps=rng.randint(5, STEPS)))
        code = process.wait(PATIENCE_S)
    found = list((lab.folder / "tmp").glob("traintrace-*/run"))
    wrong = check(lab, code=code, expected=0, steps=None) + ([] if found else ["no run elsewhere"])
    elsewhere = found[0] if found else lab.run_folder
    lost_s = max(_lost_in_own_report(lab), lab.lost_s(time.perf_counter_ns(), folder=elsewhere))
    left = lab.leftovers(killed=False, folder=elsewhere)
    # The run itself is no leftover.
    return Outcome(
        lost_s, wrong, [name for name in left if "temporary traintrace-" not in name], how
    )


def slow_disk(lab: Lab, rng: random.Random) -> Outcome:
    """Each write takes 0.7 s; no step waits for it."""
    plain = lab.train(lab.workload(traced=False, steps=STEPS, truth=str(lab.truth(9))))
    plain.wait(PATIENCE_S)
    process = lab.train(lab.workload(steps=STEPS, mischief="slow disk"))
    code = process.wait(PATIENCE_S)
    wrong = check(lab, code=code, expected=0, steps=STEPS)
    slower = _median_step(lab.told()) / _median_step(lab.told(9))
    lost_s = max(_lost_in_own_report(lab), lab.lost_s(time.perf_counter_ns()))
    return Outcome(lost_s, wrong, lab.leftovers(killed=False), "0.7 s a transaction", slower)


def _lost_in_own_report(lab: Lab) -> float:
    """Give how long before the end the first step lies that the report of the process itself lacks."""
    told = lab.told()
    missing = told.steps[told.reported or 0 :]
    return (told.steps[-1].at_ns - missing[0].at_ns) / 1e9 + 1e-3 if missing else 0.0


def _median_step(told: Told) -> float:
    moments = [step.at_ns for step in told.steps]
    return statistics.median(after - before for before, after in pairwise(moments))
