"""What `doctor` asks in a process of its own: `python -m traintrace_reporting.doctor.probe QUESTIONS`.

QUESTIONS are a list in JSON; each is answered by a line of a tab and JSON. Frameworks are imported by their names, as data: this package depends on none.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from traintrace.options import TraceOptions

_PAIRS_OF_EVENTS: Final = 20


def ask_torch() -> dict[str, Any]:
    """Give version, devices, event timing and the back ends of distributed training.

    `events` has `state` ("trusted", "not trusted" or "none"), the `reason` where they are not used, and the
    shortest time between two of them [us].
    """
    began = time.perf_counter()
    torch = importlib.import_module("torch")
    import_s = time.perf_counter() - began
    clock, reason = importlib.import_module("traintrace.pytorch.events").device_clock()
    distributed = torch.distributed
    answer: dict[str, Any] = {
        "error": None,
        "version": torch.__version__,
        "import_s": import_s,
        "cuda_built": torch.version.cuda,
        "threads": torch.get_num_threads(),
        "accelerator": None,
        "devices": [],
        "events": {"state": "trusted" if clock else "none", "reason": reason, "shortest_us": None},
        "distributed": [
            name
            for name in ("gloo", "nccl", "mpi")
            if distributed.is_available() and getattr(distributed, f"is_{name}_available")()
        ],
    }
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        answer["accelerator"] = kind
        answer["devices"] = [
            _device(torch, kind, n) for n in range(torch.accelerator.device_count())
        ]
        if clock is None:
            answer["events"]["state"] = "not trusted"
        else:
            answer["events"]["shortest_us"] = _shortest_us(torch, kind)
    return answer


def _device(torch: Any, kind: str, number: int) -> str:
    name = getattr(getattr(torch, kind, None), "get_device_name", None)
    return str(name(number)) if name is not None else f"{kind}:{number}"


def _shortest_us(torch: Any, kind: str) -> float:
    times = []
    for _ in range(_PAIRS_OF_EVENTS):
        start, end = (torch.Event(kind, enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        torch.accelerator.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return float(min(times))


def ask_plugin(trigger: str, attach: str) -> dict[str, Any]:
    """Import a framework, attach its plugin, detach it, and look at what it takes hold of.

    `state` is "ready", "not installed" (the framework is not), "incomplete" (some seam is missing) or
    "broken".
    """
    module, _, name = attach.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 - somebody else's code; its error is the answer
        return {"error": f"{attach} does not load: {_told(error)}", "state": "broken"}
    try:
        importlib.import_module(trigger)
    except ModuleNotFoundError as error:
        if trigger.partition(".")[0] == (error.name or "").partition(".")[0]:
            return {"error": None, "state": "not installed", "version": None, "missing": {}}
        return {"error": f"{trigger}: {_told(error)}", "state": "broken"}
    except Exception as error:  # noqa: BLE001 - as above
        return {"error": f"{trigger}: {_told(error)}", "state": "broken"}
    try:
        function(TraceOptions())()
    except Exception as error:  # noqa: BLE001 - as above
        return {"error": f"{attach} does not attach: {_told(error)}", "state": "broken"}
    return look_at_seams(f"{module.partition('.')[0]}.seam_names", trigger.partition(".")[0])


def look_at_seams(module: str, framework: str) -> dict[str, Any]:
    """Look whether all that a plugin takes hold of is there; one that names nothing is taken for ready.

    Args:
        module: Holds `SEAMS`: what stands for which signal, by `module:attribute`.
        framework: Its import name, for the version.
    """
    try:
        seams = importlib.import_module(module).SEAMS
    except (ImportError, AttributeError):
        seams = {}
    missing = {name: lost for name, lost in seams.items() if not _is_there(name)}
    return {
        "error": None,
        "state": "incomplete" if missing else "ready",
        "version": getattr(sys.modules.get(framework), "__version__", None),
        "missing": missing,
        "seams": len(seams),
    }


def _is_there(name: str) -> bool:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError):
        return False
    return True


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


_QUESTIONS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "torch": ask_torch,
    "plugin": ask_plugin,
}


if __name__ == "__main__":
    for question, *details in json.loads(sys.argv[1]):
        try:
            found = _QUESTIONS[question](*details)
        except Exception as error:  # noqa: BLE001 - the answer says what failed
            found = {"error": _told(error), "state": "broken"}
        # The tab tells an answer from what a framework prints.
        print(f"\t{json.dumps(found)}", flush=True)
