"""What `test_counted.py` runs: two ranks of a model with batch norm, counted on both, on one, and on none."""

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from traintrace_plain_torch import trace

STEPS, SIZE = 9, 6
FLOPS = 2 * (2 * SIZE * 4 * 8) + 3 * (2 * SIZE * 8 * 2)


def train(folder: Path, name: str, counts: bool) -> tuple[list[float], list[torch.Tensor]]:
    """Train on this rank's own data; give losses and weights."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    options: dict[str, Any] = {"flops_per_step": "count" if counts else None, "name": name}
    with trace(model, optimizer, run_dir=folder, print_report=False, **options) as tracer:
        batches = [torch.randn(SIZE, 4, generator=generator) for _ in range(STEPS)]
        for batch in tracer.batches(batches):
            with tracer.step():
                loss = model(batch).square().mean()
                loss.backward()
                losses.append(loss.item())
                optimizer.step()
                optimizer.zero_grad()
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


def main() -> None:
    """Train three times and compare to the bit."""
    dist.init_process_group("gloo")
    folder = Path(sys.argv[1])
    plain = train(folder, "none", False)
    for name, counts in (("both", True), ("one", dist.get_rank() == 0)):
        losses, weights = train(folder, name, counts)
        assert losses == plain[0], name
        assert all(map(torch.equal, weights, plain[1])), name
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
