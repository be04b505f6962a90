"""What `srun COMMAND` does, on one machine: start the tasks, pass signals on, end with the worst exit code."""

import os
import signal
import subprocess
import sys

from tests.launch.lab import srun_variables


def main() -> int:
    command = sys.argv[1:]
    while command[0].startswith("--"):
        command.pop(0)
    size, nodes = int(os.environ["SLURM_NTASKS"]), int(os.environ["SLURM_NNODES"])
    job = os.environ["SLURM_JOB_ID"]
    tasks = [
        subprocess.Popen(command, env=os.environ | srun_variables(rank, size, job=job, nodes=nodes))
        for rank in range(size)
    ]

    def pass_on(number: int, frame: object) -> None:
        for task in tasks:
            task.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    codes = [task.wait() for task in tasks]
    return max(128 - code if code < 0 else code for code in codes)


if __name__ == "__main__":
    sys.exit(main())
