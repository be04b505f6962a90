"""The straggler example, several times in one job: `name:option=value:...` for each run."""

import sys
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import ddp_straggler

if __name__ == "__main__":
    folder, *runs = sys.argv[1:]
    dist.init_process_group("gloo")
    for run in runs:
        name, *options = run.split(":")
        arguments = [f"--{option}" for option in options]
        ddp_straggler.train(
            ddp_straggler.parse([*arguments, f"--run-dir={folder}", f"--name={name}"])
        )
    dist.barrier()
    dist.destroy_process_group()
