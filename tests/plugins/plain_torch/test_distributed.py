"""Two ranks under torchrun: DDP, `no_sync`, a slow rank, sharded models, and launchers' own loops.

Each launch costs seconds, so one script trains one run per scenario; each scenario has its own test.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.labs.torch_loop import COLUMNS, check_books
from traintrace import facts, open_run

SCRIPT = """
    import sys, time, torch, torch.distributed as dist
    from contextlib import nullcontext
    from torch.nn.parallel import DistributedDataParallel
    from torch.distributed.fsdp import fully_shard
    from tests.labs.torch_loop import BATCH, CountingBackend, Net, Truth, sgd
    from traintrace_plain_torch import trace

    dist.init_process_group("gloo")
    rank = dist.get_rank()

    def train(name, model, optimizer, step, batches=6, given=None):
        options = {"run_dir": sys.argv[1], "name": name, "print_report": False}
        with trace(given or model, optimizer, **options) as tracer:
            for number, batch in enumerate(tracer.batches([BATCH] * batches)):
                with tracer.step():
                    step(number, batch)

    def plain(model, optimizer, forward_ms=0):
        def step(number, batch):
            model(batch).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return step

    # A slow forward on rank 1: it has the shortest backward, and every other rank waits for it.
    model = DistributedDataParallel(Net(Truth(), 40 * rank, 5))
    optimizer = sgd(model)
    train("slow-forward", model, optimizer, plain(model, optimizer))

    # A slow backward on rank 1: everyone's backward is as long, and own work tells whose it is.
    model = DistributedDataParallel(Net(Truth(), 0, 5 + 40 * rank))
    optimizer = sgd(model)
    train("slow-backward", model, optimizer, plain(model, optimizer))

    # Accumulation: only the last micro-batch of each group synchronises.
    model = DistributedDataParallel(Net())
    optimizer = sgd(model)

    def accumulate(number, batch):
        last = number % 3 == 2
        with nullcontext() if last else model.no_sync():
            model(batch).mean().backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()

    train("no-sync", model, optimizer, accumulate, 9)

    backend = CountingBackend()
    model = torch.compile(DistributedDataParallel(Net()), backend=backend)
    optimizer = sgd(model)
    model(BATCH).mean().backward()
    before = backend.graphs
    train("compiled", model, optimizer, plain(model, optimizer), given=model._orig_mod.module)
    assert backend.graphs == before, (backend.graphs, before)

    model = Net()
    fully_shard(model.second)
    fully_shard(model)
    keys, kind = list(model.state_dict()), type(model)
    optimizer = sgd(model)
    train("sharded", model, optimizer, plain(model, optimizer))
    assert list(model.state_dict()) == keys and type(model) is kind
    assert "__call__" not in vars(kind) and "_compiled_call_impl" not in vars(model)

    dist.barrier()
    dist.destroy_process_group()
"""

# In CI the ranks of tests/ranks and tests/cases/ranks do all of this but the slow forward.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two-ranks")
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), "utf-8")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *launcher, str(script), str(folder / "runs")],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        cwd=folder,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "runs"


def ranks_of(runs: Path, name: str) -> tuple[facts.RankFacts, facts.RankFacts]:
    first, second = open_run(runs / name).facts(COLUMNS).ranks
    for rank in (first, second):
        check_books(rank)
    return first, second


def mean_ms(rank: facts.RankFacts, *accounts: str) -> float:
    """Give the mean over all steps but the first [ms]."""
    columns: list[Any] = [rank.columns[f"{account}_ns"][1:] for account in accounts]
    return sum(sum(column) / len(column) for column in columns) / 1e6


def shortest_ms(rank: facts.RankFacts, account: str) -> float:
    """Give the least of all steps but the first [ms]: the one that the machine disturbed least."""
    return min(ns or 0 for ns in rank.columns[f"{account}_ns"][1:]) / 1e6


def test_the_rank_with_the_slow_forward_has_the_shortest_backward(runs: Path) -> None:
    fast, slow = ranks_of(runs, "slow-forward")
    assert mean_ms(slow, "forward") >= 40
    assert mean_ms(slow, "backward", "gradient_sync") < mean_ms(fast, "backward", "gradient_sync")
    assert mean_ms(fast, "gradient_sync") > 20, "the other rank waits for it"
    assert shortest_ms(fast, "backward") < 5 + 15, "and its own work stays its own"


def test_the_rank_with_the_slow_backward_is_told_by_its_own_work(runs: Path) -> None:
    fast, slow = ranks_of(runs, "slow-backward")
    assert mean_ms(slow, "backward") >= 45
    assert shortest_ms(fast, "backward") < 5 + 15
    whole = mean_ms(fast, "backward", "gradient_sync")
    assert whole >= 30, "the whole call is as long on the rank that waits"


def test_only_micro_batches_that_synchronise_wait(runs: Path) -> None:
    for rank in ranks_of(runs, "no-sync"):
        assert list(rank.columns["micro_batches"]) == [3, 3, 3]
        assert list(rank.columns["forward_calls"]) == list(rank.columns["backward_calls"])
        assert list(rank.columns["backward_calls"]) == [3, 3, 3]
        assert all(ns is not None for ns in rank.columns["gradient_sync_ns"])
        assert rank.totals.calls["gradient_sync"] == 3


def test_a_compiled_ddp_model_is_seen_and_no_graph_is_made_for_it(runs: Path) -> None:
    for rank in ranks_of(runs, "compiled"):
        assert list(rank.columns["forward_calls"]) == [1] * 6
        assert list(rank.columns["backward_calls"]) == [1] * 6


def test_a_sharded_model_is_seen_and_its_backward_may_include_waiting(runs: Path) -> None:
    for rank in ranks_of(runs, "sharded"):
        assert rank.setup.strategy == "fsdp2"
        for phase in ("forward", "backward", "optimizer"):
            assert list(rank.columns[f"{phase}_calls"]) == [1] * 6, phase
        assert list(rank.columns["gradient_sync_ns"]) == [None] * 6
    summary = json.loads((runs / "sharded" / "final_summary.json").read_text("utf-8"))
    assert "may include waiting" in summary["coverage"]["gradient_sync"]["reason"]
