"""Let the ranks that Lightning starts by itself be traced like the process that starts them.

With `Trainer(devices=2)` or Fabric's like, Lightning starts `python script args` for each further rank.
Such a process knows nothing of the launcher of the first one; so its command is led through it.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from traintrace.faults import FaultReporter
from traintrace.launch.parentdeath import name_of
from traintrace.launch.plan import WORKER
from traintrace.options import TraceOptions
from traintrace.patching import replace_attribute
from traintrace.registry import REGISTRY

# Packages that start processes, and what is there once a package is loaded to its end.
_PACKAGES: Final = (
    ("lightning.fabric", "Fabric"),
    ("lightning.pytorch", "Trainer"),
    ("lightning_fabric", "Fabric"),
    ("pytorch_lightning", "Trainer"),
)
# In each of them: the second of a pair has names of its own for what the first makes.
_LAUNCHER: Final = "strategies.launchers.subprocess_script"
_PLAIN: Final = "_basic_subprocess_cmd"
_HYDRA: Final = "_hydra_subprocess_cmd"  # gives the working directory as well
UNSEEN: Final = (
    "this version of Lightning starts its processes in a way that is not known; ranks that it starts by "
    "itself are not traced. Start them with `traintrace run --nproc`"
)


def trace_children(options: TraceOptions) -> Iterator[Callable[[], None]]:
    """Lead the commands of Lightning's own launcher through ours; give what undoes it.

    Says once that there is nothing to lead, where a version lacks the names.
    """
    for package, last in _PACKAGES:
        if not hasattr(sys.modules.get(package), last):
            continue
        module = sys.modules.get(f"{package}.{_LAUNCHER}")
        if not callable(getattr(module, _PLAIN, None)):
            FaultReporter(REGISTRY.raise_faults).warn(UNSEEN)
            continue
        yield replace_attribute(module, _PLAIN, _led(getattr(module, _PLAIN), options))
        if hasattr(module, _HYDRA):
            yield replace_attribute(module, _HYDRA, _led_with_folder(module, options))


def _led(original: Callable[[], Any], options: TraceOptions) -> Callable[[], Any]:
    @functools.wraps(original)
    def command() -> Any:
        return lead(original(), options)

    return command


def _led_with_folder(module: Any, options: TraceOptions) -> Callable[..., Any]:
    original = getattr(module, _HYDRA)

    @functools.wraps(original)
    def command(*args: Any, **kwargs: Any) -> Any:
        made, folder = original(*args, **kwargs)
        return lead(made, options), folder

    return command


def lead(command: Any, options: TraceOptions) -> Any:
    """Give `[python, (-m,) target, ...]` with our worker between the two; anything else as it is."""
    interpreter, *rest = command
    if interpreter != sys.executable or rest[:2] == [*WORKER]:
        return command
    # Lightning itself leaves them to themselves when this process ends; the launcher's end is another thing.
    launcher = ["--launcher", name_of(os.getppid())] if REGISTRY.launched else []
    return [interpreter, *WORKER, "--options", options.to_json(), *launcher, *rest]
