"""torchrun's flags as options of ours: taken in both spellings, passed on as they were given."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import click


class Flag(NamedTuple):
    """A flag of `torch.distributed.run`.

    Attributes:
        value: What its value is called; empty for a flag without one.
        short: Its one-letter form; empty if it has none.
    """

    name: str
    value: str
    told: str
    short: str = ""


# What launches something else than a script or module of Python has no place here: --no-python, --run-path.
FLAGS: Final = (
    Flag("nproc-per-node", "N", "Processes on this node: a number, auto, cpu, gpu or xpu."),
    Flag("nnodes", "N", "Nodes, or the least and the most of them as 1:4."),
    Flag("node-rank", "N", "This node's number, from 0."),
    Flag("master-addr", "HOST", "Address of node 0."),
    Flag("master-port", "PORT", "Port on node 0."),
    Flag("local-addr", "HOST", "Address of this node."),
    Flag("rdzv-backend", "NAME", "How nodes find each other: static, c10d, ..."),
    Flag("rdzv-endpoint", "HOST:PORT", "Where they meet."),
    Flag("rdzv-id", "ID", "Name of the job, the same on all nodes."),
    Flag("rdzv-conf", "K=V,...", "Settings of the rendezvous."),
    Flag("standalone", "", "One node, with a rendezvous on a free port."),
    Flag("max-restarts", "N", "How often the ranks are started again after a failure."),
    Flag("monitor-interval", "SECONDS", "Pause between two looks at the ranks."),
    Flag("start-method", "METHOD", "spawn, fork or forkserver."),
    Flag("event-log-handler", "NAME", "Where torchrun's events go."),
    Flag("role", "NAME", "Role of the ranks."),
    Flag("log-dir", "DIR", "Folder for the ranks' output."),
    Flag("redirects", "MASK", "Output that goes to files only.", "-r"),
    Flag("tee", "MASK", "Output that goes to files too.", "-t"),
    Flag("local-ranks-filter", "RANKS", "Ranks whose output is shown."),
    Flag("duplicate-stdout-filters", "TEXTS", "Lines of output that are written twice."),
    Flag("duplicate-stderr-filters", "TEXTS", "Lines of errors that are written twice."),
    Flag("logs-specs", "NAME", "How output is kept."),
    Flag("numa-binding", "MODE", "How ranks are bound to CPUs."),
    Flag("signals-to-handle", "NAMES", "Signals that are passed on to the ranks."),
    Flag("shutdown-timeout", "SECONDS", "Time that the ranks get to end."),
    Flag("virtual-local-rank", "", "Let each rank see its own GPU as number 0."),
)


def torchrun_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add torchrun's flags to a command; they arrive as keyword arguments for `given_flags`."""
    for flag in reversed(FLAGS):
        spellings = dict.fromkeys((f"--{flag.name}", f"--{flag.name.replace('-', '_')}"))
        names = [*spellings, *([flag.short] if flag.short else [])]
        told = f"torchrun: {flag.told}"
        option = (
            click.option(*names, metavar=flag.value, help=told)
            if flag.value
            else click.option(*names, is_flag=True, default=None, help=told)
        )
        command = option(command)
    return command


def given_flags(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Give those of torchrun's flags that stand on the command line, as torchrun takes them."""
    given = []
    for flag in FLAGS:
        value = values[flag.name.replace("-", "_")]
        if flag.value and value is not None:
            given.append(f"--{flag.name}={value}")
        elif value:
            given.append(f"--{flag.name}")
    return tuple(given)
