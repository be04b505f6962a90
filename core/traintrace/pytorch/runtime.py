"""What torch knows of its surroundings: for provenance."""

import torch

from traintrace.ports import Runtime


def torch_runtime() -> Runtime:
    """Give the CUDA version of this torch and the seed of its generator; draws nothing, initialises nothing.

    The seed is that of the generator of the CPU, to which `torch.manual_seed` and everything built on it gives
    the same as to all others. Where nobody seeded it, it is torch's own first one.
    """
    return Runtime(cuda=torch.version.cuda, seeds={"torch": torch.initial_seed()})
