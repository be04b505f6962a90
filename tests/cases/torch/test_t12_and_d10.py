"""T12 and D10: what loader workers hold, and what a host holds, are each counted once and where they are."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from tests.labs.torch_loop import Net, Recorded, sgd, trained, update
from traintrace import open_run

MB = 1_000_000
HELD = 200 * MB


class Hoard(Dataset[torch.Tensor]):
    """Rows of ones; each process that makes one holds `HELD` bytes from then on."""

    def __init__(self) -> None:
        self.held: torch.Tensor | None = None

    def __len__(self) -> int:
        return 240

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.held is None:
            self.held = torch.ones(HELD // 4)
        return torch.ones(4)


def test_t12_what_loader_workers_hold_is_told_beside_what_the_main_process_holds(
    tmp_path: Path,
) -> None:
    """wandb#10464: the chart showed the main process only, the workers held most of the memory."""
    model = Net()
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        update(model, optimizer, batch)
        time.sleep(0.02)

    loader = DataLoader(Hoard(), batch_size=2, num_workers=2)
    run: Recorded = trained(tmp_path, model, optimizer, step, loader)
    readings = run.rank.process
    # Other tests may keep processes of their own in this one, but none that holds so much.
    with_workers = [reading for reading in readings if reading.workers and reading.workers >= 2]
    assert with_workers
    assert max(reading.workers_rss_bytes or 0 for reading in with_workers) >= 2 * HELD
    main = [reading.rss_bytes or 0 for reading in readings]
    assert max(main) - main[0] < HELD, "what a worker holds is no memory of the main process"
    assert sum(reading.workers_cpu_cores or 0 for reading in readings) > 0


SCRIPT = """
    import os, sys, time, torch
    import torch.distributed as dist
    from tests.labs.torch_loop import Net, sgd, update
    from traintrace_plain_torch import trace

    meeting, rank = f"file://{sys.argv[1]}/meeting", int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(Net())
    optimizer = sgd(model)
    held = torch.ones(50_000_000 * dist.get_rank())
    with trace(model, optimizer, run_dir=sys.argv[1], name="run", print_report=False) as tracer:
        for batch in tracer.batches([torch.ones(2, 4)] * 8):
            with tracer.step():
                update(model, optimizer, batch)
                time.sleep(0.1)
    dist.destroy_process_group()
"""


def test_d10_the_host_is_read_once_and_each_rank_for_itself(tmp_path: Path) -> None:
    """wandb#5078: every rank logged the whole host, so it was there once for each process."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), "utf-8")
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path)],
            env=os.environ
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
            | {"LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    first, second = open_run(tmp_path / "run").facts(["step"]).ranks
    assert len(first.system) >= 2
    assert first.system[-1].ram_total_bytes
    assert not second.system
    held = [max(reading.rss_bytes or 0 for reading in rank.process) for rank in (first, second)]
    assert held[1] - held[0] > 100 * MB
    assert all(reading.workers == 0 for rank in (first, second) for reading in rank.process)
