"""Launch training on this node and wait for its end."""

import os
import signal
import sys
from collections.abc import Callable

from traintrace.launch.plan import LaunchPlan, command_of
from traintrace.launch.supervise import Ended, supervise
from traintrace.launch.torchrun import needs_agent
from traintrace.runs.identity import RUN_VARIABLE


def launch(plan: LaunchPlan, on_start: Callable[[int], None] | None = None) -> Ended:
    """Run `plan` to its end, on the main thread; see `supervise` for what happens to signals.

    Args:
        plan: What is run.
        on_start: Told of its process (torchrun's, if there are several) once it runs; it must not raise.

    Raises:
        OSError: No process can be started.
    """
    environment = dict(os.environ)
    if plan.run is not None and not plan.disable:
        environment[RUN_VARIABLE] = plan.run
    # torchrun alone must end its workers itself if we are killed; traced ones end with it.
    gently = plan.disable and needs_agent(plan.torchrun)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    death_signal = signal.SIGTERM if gently else signal.SIGKILL
    return supervise(command_of(plan), environment, death_signal, on_start)
