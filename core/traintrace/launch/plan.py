"""What is to be launched, and the command that does it."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Final, Literal

from traintrace.launch.torchrun import needs_agent, refuse_unusable, with_free_port
from traintrace.options import TraceOptions

BOOTSTRAP: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap.py")
# Words that follow `python` on a command line.
WORKER: Final = (BOOTSTRAP, "worker")
AGENT: Final = (BOOTSTRAP, "agent")
TORCHRUN: Final = "torch.distributed.run"


@dataclass(frozen=True, slots=True)
class Target:
    """The user's program.

    Attributes:
        kind: "script" as in `python NAME`, "module" as in `python -m NAME`.
        name: Path of the script, or dotted name of the module.
        args: The program's own arguments.
    """

    kind: Literal["script", "module"]
    name: str
    args: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """Give the words that follow `python` on a command line."""
        return [*(["-m"] if self.kind == "module" else []), self.name, *self.args]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """One launch on this node.

    Attributes:
        target: The user's program.
        options: How it is traced.
        torchrun: Flags of torchrun, handed on unchanged. Where they ask for no more than one process
            on one node, torchrun is left out, so that no framework takes the job for distributed.
        run: Folder or URL of the run, for the children's TRAINTRACE_RUN; None names none.
        disable: Run the program as if traintrace were not there.

    Raises:
        UsageError: A flag of torchrun cannot be used here; the message names it.
    """

    target: Target
    options: TraceOptions = field(default_factory=TraceOptions)
    torchrun: tuple[str, ...] = ()
    run: str | None = None
    disable: bool = False

    def __post_init__(self) -> None:
        refuse_unusable(self.torchrun)


def command_of(plan: LaunchPlan) -> list[str]:
    """Give the command that starts `plan`, for this interpreter with the flags it runs under."""
    traced = [*WORKER, "--options", plan.options.to_json(), *plan.target.words()]
    words = plan.target.words() if plan.disable else traced
    if needs_agent(plan.torchrun):
        agent = ("-m", TORCHRUN) if plan.disable else AGENT
        words = [*agent, *with_free_port(plan.torchrun), *words]
    return [sys.executable, *_interpreter_flags(), *words]


def _interpreter_flags() -> list[str]:
    # What multiprocessing itself uses; -u is not among sys.flags, but shows at the stream.
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    unbuffered = getattr(sys.__stdout__, "write_through", False)
    return [*flags, "-u"] if unbuffered else flags
