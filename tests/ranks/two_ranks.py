"""What the tests of this folder start as two ranks, all of it in one job: starting one takes seconds."""

import torch.distributed as dist

from tests.ranks import compiled_runs, harmless_runs, marked_runs, profiled_runs

if __name__ == "__main__":
    for scenario in (
        *harmless_runs.SCENARIOS,
        *compiled_runs.SCENARIOS,
        *marked_runs.SCENARIOS,
        *profiled_runs.SCENARIOS,
    ):
        scenario()
    dist.barrier()
    dist.destroy_process_group()
