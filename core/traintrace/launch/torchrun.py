"""What must be known of torchrun's flags; everything else about them is torchrun's."""

import os
from collections.abc import Iterator, Mapping
from typing import Final

from traintrace.errors import UsageError

_COUNTS: Final = ("nproc-per-node", "nnodes")
# With one of these the user has chosen where the nodes meet.
_RENDEZVOUS: Final = (
    "standalone",
    "rdzv-backend",
    "rdzv-endpoint",
    "rdzv-id",
    "master-addr",
    "master-port",
)
# These run something else than a Python program that a worker could run.
_UNUSABLE: Final = ("no-python", "run-path", "module", "m")
_KNOWN: Final = (*_COUNTS, *_RENDEZVOUS, *_UNUSABLE, "node-rank")
# torchrun reads each of its flags from PET_<FLAG> as well.
_VARIABLE: Final = "PET_"


def refuse_unusable(flags: tuple[str, ...]) -> None:
    """Refuse flags that contradict what a launch does.

    Raises:
        UsageError: There is such a flag; the message names it.
    """
    for name, _ in _named(flags):
        if name in _UNUSABLE:
            dashes = "-" if len(name) == 1 else "--"
            raise UsageError(
                f"torchrun's {dashes}{name} cannot be used here: name a script, or -m and a module, last"
            )


def needs_agent(flags: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether torchrun is needed: not for one process on one node without further wishes."""
    values = _values(flags, environment)
    one_process = values.get("nproc-per-node", "1") == "1" and _single(values.get("nnodes", "1"))
    only_counts = all(name in _COUNTS for name, _ in _named(flags))
    # Without a flag torchrun's variables ask for nothing: `python train.py` ignores them too.
    return bool(flags) and not (one_process and only_counts)


def with_free_port(
    flags: tuple[str, ...], environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Let the processes of a single node meet at a free port.

    Newer versions of torch do this of themselves; older ones meet at port 29500, where a second job
    on the machine would join the first or fail.
    """
    values = _values(flags, environment)
    if not _single(values.get("nnodes", "1")) or any(name in values for name in _RENDEZVOUS):
        return flags
    return ("--standalone", *flags)


def node_count(flags: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> int:
    """Give how many nodes the job has, at least; 1 where the flags do not say."""
    least = _values(flags, environment).get("nnodes", "1").split(":")[0]
    return max(int(least), 1) if least.isdecimal() else 1


def node_rank(flags: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> int:
    """Give which node this is; 0 where the flags do not say."""
    rank = _values(flags, environment).get("node-rank", "0")
    return int(rank) if rank.isdecimal() else 0


def processes_per_node(
    flags: tuple[str, ...], environment: Mapping[str, str] = os.environ
) -> int | None:
    """Give how many processes run on each node; None for "gpu", "auto" and the like."""
    count = _values(flags, environment).get("nproc-per-node", "1")
    return int(count) if count.isdecimal() else None


def _values(flags: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    given = {
        name.removeprefix(_VARIABLE).lower().replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith(_VARIABLE)
    }
    return given | dict(_named(flags))


def _named(flags: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for flag, following in zip(flags, (*flags, "")[1:], strict=True):
        if flag.startswith("-"):
            name, equals, value = flag.lstrip("-").partition("=")
            yield _in_full(name.replace("_", "-")), value if equals else following


def _in_full(name: str) -> str:
    # torchrun takes the beginning of a name for the name.
    fitting = [known for known in _KNOWN if len(name) > 1 and known.startswith(name)]
    return fitting[0] if len(fitting) == 1 else name


def _single(nnodes: str) -> bool:
    return nnodes.split(":")[-1] == "1"
