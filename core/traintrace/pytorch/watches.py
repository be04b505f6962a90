"""What of torch is watched beside training, in every framework."""

from traintrace.ports import Watch
from traintrace.pytorch.allocator import AllocatorWatch
from traintrace.pytorch.compilations import CompilationWatch


def torch_watches() -> tuple[Watch, ...]:
    """Make the watches of one session; they import nothing of torch and initialise no device."""
    return CompilationWatch(), AllocatorWatch()
