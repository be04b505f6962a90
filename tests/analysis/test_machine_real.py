"""A training thread that shares its core with a busy process: named from a real run, as a user would meet it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import traintrace
from traintrace_analysis import analyse
from traintrace_analysis.columns import REQUIRED_COLUMNS

# Both processes are put on one core, so that other cores and their load make no difference.
TRAINING = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
import torch
from traintrace_plain_torch import trace

torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def batches():
    end = time.monotonic() + 7.0
    while time.monotonic() < end:
        yield torch.rand(4, 8)

with trace(model, optimizer, run_dir=sys.argv[2], name="run") as tracer:
    for batch in tracer.batches(batches()):
        with tracer.step():
            model(batch).sum().backward()
            busy = time.thread_time() + 0.02
            while time.thread_time() < busy:
                pass
            optimizer.step()
            optimizer.zero_grad()
"""
NEIGHBOUR = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@pytest.mark.long
@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the kernel does not count it"
)
def test_a_neighbour_on_the_same_core_is_found(tmp_path: Path) -> None:
    core = str(min(os.sched_getaffinity(0)))
    neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, core])
    try:
        subprocess.run(
            [sys.executable, "-c", TRAINING, core, str(tmp_path)], check=True, capture_output=True
        )
    finally:
        neighbour.kill()
        neighbour.wait()
    analysis = analyse(traintrace.open_run(tmp_path / "run").facts(REQUIRED_COLUMNS))
    finding = next(one for one in analysis.findings if one.kind == "CPU_OVERSUBSCRIBED")
    share = finding.evidence["run_queue_share"]
    # Two equal processes share a core; whoever else runs takes more of it, never less.
    assert isinstance(share, float)
    assert share > 0.3
    assert finding.severity in ("warning", "critical")
    # The loop's own busy waiting is a finding of its own, and names most of these seconds as well.
    elsewhere = finding.evidence["named_elsewhere_s"]
    assert isinstance(elsewhere, float)
    assert finding.cost_s + elsewhere > 1.0
    assert analysis.process is not None
    assert analysis.process.by_rank[0].allowed_cores == 1.0
