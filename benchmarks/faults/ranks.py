"""Two real ranks over gloo, traced by the plain plugin.

    python -m benchmarks.faults.ranks      reads jobs from standard input, a line each: FOLDER traced|plain

Torch is loaded once; each job is forked from there. A job's folder gets the ranks' process ids, what they
tell, and at the end the exit code.
"""

import os
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks.faults.workload import Truth

WORLD: Final = 2
STEPS: Final = 150
EXIT: Final = "exit-code"
_LOADED: Final = (
    "torch.distributed",
    "traintrace_analysis",
    "traintrace_plain_torch",
    "traintrace_reporting.summary",
    "traintrace_reporting.text",
)


def pid_of(folder: Path, rank: int) -> int:
    """Give the process id of a rank."""
    return int((folder / f"pid-{rank}").read_text("utf-8"))


def _load() -> None:
    """Load all that ranks use, so that they start at once."""
    import torch

    for name in _LOADED:
        import_module(name)
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.SGD([weight], lr=0.1).step()


def _train(folder: Path, rank: int, traced: bool) -> None:
    """Train one rank, and tell the truth about it."""
    import torch
    import torch.distributed as dist

    from traintrace_plain_torch import trace

    dist.init_process_group(
        "gloo", rank=rank, world_size=WORLD, init_method=f"file://{folder / 'store'}"
    )
    torch.manual_seed(rank)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    truth = Truth(str(folder / f"truth-{rank}"))
    with trace(model, optimizer, enabled=traced, print_report=False) as tracer:
        for number in range(1, STEPS + 1):
            with tracer.step():
                loss = model(torch.randn(8, 16)).square().mean()
                loss.backward()
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                optimizer.step()
                optimizer.zero_grad()
                time.sleep(0.004)
            truth.tell("step", number, time.perf_counter_ns(), float(loss.detach()).hex())
    dist.destroy_process_group()


def _run_rank(folder: Path, rank: int, traced: bool) -> int:
    local = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD}
    os.environ.update({name: str(value) for name, value in local.items()})
    try:
        _train(folder, rank, traced)
    except Exception:  # noqa: BLE001 - as the interpreter does at the end of a script
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _run_job(folder: Path, traced: bool) -> None:
    """Fork the ranks, wait for them, and write the worst exit code."""
    os.environ.update(TRAINTRACE_RUN=str(folder / "runs" / "run"), TMPDIR=str(folder / "tmp"))
    tempfile.tempdir = None
    log = os.open(folder / "log-ranks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    ranks = []
    for rank in range(WORLD):
        child = os.fork()
        if not child:
            (folder / f"pid-{rank}").write_text(str(os.getpid()), "utf-8")
            code = _run_rank(folder, rank, traced)
            sys.stderr.flush()
            os._exit(code)
        ranks.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks]
    worst = next((code if code > 0 else 128 - code for code in codes if code), 0)
    (folder / "exit-code.part").write_text(str(worst), "utf-8")
    os.replace(folder / "exit-code.part", folder / EXIT)


def main() -> None:
    """Serve jobs until standard input ends."""
    _load()
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # nobody asks how a job ended: it writes that down
    for line in sys.stdin:
        folder, how = line.split()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run_job(Path(folder), how == "traced")
            os._exit(0)


if __name__ == "__main__":
    main()
