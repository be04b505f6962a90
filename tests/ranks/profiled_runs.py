"""What `two_ranks.py` runs for `test_profile.py`: DDP over gloo, profiled and not, with equal results.

Rank 1 sleeps before its forward, so rank 0 waits for it in the all-reduce.
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.labs.torch_loop import sgd
from traintrace_plain_torch import trace

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")  # imported for its numbers too
LATE_MS, STEPS, PROFILED_STEPS = 20, 30, (4, 6)


def trained(name: str, steps: tuple[int, int] | None) -> list[torch.Tensor]:
    torch.manual_seed(5)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 1)))
    optimizer = sgd(model)
    with trace(
        model, optimizer, run_dir=FOLDER, name=name, print_report=False, profile_steps=steps
    ) as tracer:
        for _ in range(STEPS):
            with tracer.step():
                time.sleep(LATE_MS * dist.get_rank() / 1e3)
                model(torch.randn(2, 16)).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


def profiled() -> None:
    plain, with_profile = trained("not-profiled", None), trained("profiled", PROFILED_STEPS)
    assert all(torch.equal(a, b) for a, b in zip(plain, with_profile, strict=True))


SCENARIOS = (profiled,)
