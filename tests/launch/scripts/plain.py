"""A hand-written loop that any launcher can start: what it finds in the environment says how many ranks.

`--automatic` leaves tracing to `traintrace run`; `--bare` ends as the others do and does no work.
"""

import argparse
import json
import os
import signal
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

PLACES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--name")
    parser.add_argument(
        "--end", choices=("returns", "raises", "exits", "killed"), default="returns"
    )
    parser.add_argument("--automatic", action="store_true")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--join", choices=("env", "file", "late", "never"), default="env")
    parser.add_argument("--crash-at", type=int, help="in the first attempt, raise at this step")
    parser.add_argument("--spawn", type=int)
    parser.add_argument("--minutes-edge", action="store_true", help="each rank reads another time")
    parser.add_argument("--step-ms", type=float, default=0)
    parser.add_argument("--leave-on-sigterm", action="store_true", help="with exit code 9")
    parser.add_argument("--tell-environment", help="file for what launchers put there")
    return parser.parse_args()


def place() -> tuple[int, int]:
    """Give rank and world size."""
    for rank, size in PLACES:
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def end(how: str, rank: int) -> None:
    if how == "raises":
        raise RuntimeError("training failed")
    if how == "exits":
        sys.exit(7)
    if how == "killed" and rank == place()[1] - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "killed":
        time.sleep(20)  # the launcher ends the others


def meet(rank: int, size: int) -> None:
    """Wait until all ranks of this machine are here, and what they have recorded is on the disk."""
    Path(f"crashing-{rank}").touch()
    until = time.monotonic() + 60
    while len([*Path().glob("crashing-*")]) < size and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(1)


def tell_environment(file: str) -> None:
    """Write what of the environment makes frameworks take a process for one of several."""
    names = {name for pair in PLACES for name in pair} | {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}
    starts = ("MASTER_", "TORCHELASTIC_", "TRAINTRACE_", "GROUP_", "ROLE_")
    seen = {n: v for n, v in os.environ.items() if n in names or n.startswith(starts)}
    Path(file).write_text(json.dumps(seen), "utf-8")


def join(rank: int, size: int, how: str) -> None:
    import torch.distributed as dist

    where = "env://" if how == "env" else f"file://{os.getcwd()}/meeting"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)


def train(rank: int, size: int, options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if size > 1 and options.join in ("env", "file"):
        join(rank, size, options.join)
    model: torch.nn.Module = torch.nn.Linear(4, 1)
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows: Any = torch.ones(2 * options.steps, 4)
    loader: Any = torch.utils.data.DataLoader(rows, batch_size=2)
    span: AbstractContextManager[Any] = nullcontext()
    if not options.automatic:
        from traintrace_plain_torch import trace

        span = trace(model, optimizer, run_dir="runs", name=options.name)
    crashes = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0" and options.crash_at
    with span:
        if size > 1 and options.join == "late":
            join(rank, size, "late")
            dist.barrier()
        for number, batch in enumerate(loader):
            if crashes and number == options.crash_at:
                meet(rank, size)  # so that the launcher ends no rank before it is here too
                raise RuntimeError("crash")
            model(batch).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(options.step_ms / 1e3)
            if number == 3:
                Path(f"training-{rank}").touch()
        end(options.end, rank)
    if dist.is_initialized():
        dist.destroy_process_group()


def spawned(rank: int, options: argparse.Namespace) -> None:
    train(rank, options.spawn, options)


if __name__ == "__main__":
    options = arguments()
    if options.tell_environment:
        tell_environment(options.tell_environment)
    if options.minutes_edge:
        edge: Any = lambda *arguments: f"20261130-1159-{place()[0]}"  # noqa: E731 - stands for strftime
        time.strftime = edge
    if options.leave_on_sigterm:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    if options.bare:
        end(options.end, place()[0])
    elif options.spawn:
        from torch.multiprocessing.spawn import spawn

        start: Any = spawn  # it has no types
        start(spawned, (options,), options.spawn)
    else:
        train(*place(), options)
