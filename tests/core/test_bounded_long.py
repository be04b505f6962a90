"""Bounded for any length of run: memory and disk of a million steps. Takes minutes, so it is marked long."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from traintrace import open_run

SCRIPT = """
    import sys, time
    from traintrace import accounts as A
    from traintrace.options import TraceOptions
    from traintrace.ports import PluginIdentity, Ports
    from traintrace.samplers import ResidentMemory
    from traintrace.session import Session

    session = Session(
        TraceOptions(run_dir=sys.argv[1], name="run"), PluginIdentity("test", "0", "none", "0"), Ports()
    )
    session.begin()
    enter, leave, memory = session.journal.marker(A.INPUT_WAIT), session.journal.marker(~A.INPUT_WAIT), ResidentMemory()
    for step in range(1, 1_000_001):
        enter()
        leave()
        session.capture.micro_batches = 1
        session.capture.complete()
        if step % 2_000 == 0:
            session.flush()  # a training step is long enough for this; an empty one is not
        if step == 250_000:
            before = memory.read_bytes()
    grown = memory.read_bytes() - before
    session.finish("completed")
    assert grown <= 20 * 2**20, f"grew by {grown / 2**20:.1f} MiB"
"""


@pytest.mark.long
def test_a_million_steps_take_bounded_memory_and_disk_and_add_up(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)], check=True)
    file = tmp_path / "run" / "ranks" / "rank-00000.sqlite"
    assert file.stat().st_size < 202_000 * 130
    rank = open_run(tmp_path / "run").facts(["step"]).ranks[0]
    assert rank.totals.steps == 1_000_000
    assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
    assert len(rank.columns["step"]) <= 202_000
    assert rank.totals.dropped_rows == 0
