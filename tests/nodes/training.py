"""What the tests of this folder train: a small model on all ranks, by DDP or FSDP over gloo.

training.py URL --steps 60 --step-ms 5 [--sharded] [--crash-at 20]
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from traintrace.options import TraceOptions
from traintrace_plain_torch.loop import Tracer

FEATURES = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run_dir")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--step-ms", type=float, default=5.0)
    parser.add_argument("--interval-s", type=float, default=0.3)
    parser.add_argument("--wait-s", type=float, default=15.0)
    parser.add_argument("--sharded", action="store_true")
    asked = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, 1))
    model: nn.Module
    if asked.sharded:
        fully_shard(layers)
        model = layers
    else:
        model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options = TraceOptions(
        run_dir=asked.run_dir,
        name="two-nodes",
        publish_interval_s=asked.interval_s,
        wait_for_ranks_s=asked.wait_s,
    )
    batches = [torch.randn(4, FEATURES) for _ in range(asked.steps)]
    with Tracer(model, optimizer, options, awaits_update=True) as tracer:
        for batch in tracer.batches(batches):
            with tracer.step():
                loss = model(batch).mean()
                time.sleep(asked.step_ms / 1e3)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
