"""What a process is like from outside its training: threads, files, handlers, settings."""

import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
import warnings
from typing import Any

import numpy as np
import torch

from tests.unchanged.subject.recipe import random_states


def state() -> dict[str, Any]:
    """Give every setting of the process that a tracer could leave changed, by name."""
    sandbox = os.environ["SANDBOX"]
    variables = {k: v.replace(sandbox, "SANDBOX") for k, v in os.environ.items()}
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "native threads": len(os.listdir("/proc/self/task")),
        "open files": _open_files(),
        "signal handlers": _signal_handlers(),
        "interpreter hooks": _interpreter_hooks(),
        "garbage collector": _garbage_collector(),
        "warning filters": [repr(each) for each in warnings.filters],
        "logging": _logging(),
        "environment variables": variables,
        "working directory": os.path.relpath(os.getcwd(), sandbox),
        "random states": random_states(),
        "torch settings": _torch_settings(),
        "import system": _import_system(),
    }


def _open_files() -> list[str]:
    """Give what the open file descriptors lead to, without the numbers of pipes and sockets."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue  # the one that lists this folder
        found.append(target.partition(":[")[0].replace(os.environ["SANDBOX"], "SANDBOX"))
    return sorted(found)


def _signal_handlers() -> dict[str, str]:
    handlers = {number.name: repr_of(signal.getsignal(number)) for number in signal.Signals}
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    return {**handlers, "wakeup": str(wakeup), "timer": str(signal.getitimer(signal.ITIMER_REAL))}


def _interpreter_hooks() -> dict[str, str]:
    hooks = {
        f"{module.__name__}.{name}": repr_of(getattr(module, name))
        for module, names in (
            (sys, ("excepthook", "unraisablehook", "displayhook", "breakpointhook")),
            (sys, ("stdout", "stderr", "stdin")),
            (threading, ("excepthook",)),
            (warnings, ("showwarning", "_showwarnmsg_impl", "formatwarning")),
        )
        for name in names
    }
    hooks["trace"], hooks["profile"] = repr_of(sys.gettrace()), repr_of(sys.getprofile())
    hooks["thread trace"] = repr_of(threading.gettrace())
    hooks["thread profile"] = repr_of(threading.getprofile())
    hooks["async generators"] = repr(sys.get_asyncgen_hooks())
    hooks["fault handler"] = str(faulthandler.is_enabled())
    hooks["switch interval"] = str(sys.getswitchinterval())
    hooks["recursion limit"] = str(sys.getrecursionlimit())
    return hooks


def _garbage_collector() -> dict[str, Any]:
    return {
        "enabled": gc.isenabled(),
        "threshold": gc.get_threshold(),
        "callbacks": [repr_of(callback) for callback in gc.callbacks],
        "debug": gc.get_debug(),
    }


def _logging() -> dict[str, str]:
    """Give the loggers that anything was set on."""
    loggers: list[Any] = [logging.root, *logging.root.manager.loggerDict.values()]
    return {
        logger.name: f"{logger.level} {logger.propagate} {logger.disabled} "
        f"{list(map(repr_of, logger.handlers))} {list(map(repr_of, logger.filters))}"
        for logger in loggers
        if isinstance(logger, logging.Logger)
        and (logger.level or logger.handlers or logger.filters or logger.disabled)
    }


def _torch_settings() -> dict[str, str]:
    sharing: Any = torch.multiprocessing.get_sharing_strategy
    return {
        "threads": f"{torch.get_num_threads()} {torch.get_num_interop_threads()}",
        "gradients": f"{torch.is_grad_enabled()} {torch.is_inference_mode_enabled()}",
        "anomaly": str(torch.is_anomaly_enabled()),
        "default type": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "autocast": str(torch.is_autocast_enabled("cpu")),
        "profiler": str(torch.autograd.profiler._is_profiler_enabled),
        "numpy errors": str(np.geterr()),
        "printing": str(np.get_printoptions()),
        "tensor sharing": sharing(),
        "start method": str(torch.multiprocessing.get_start_method(allow_none=True)),
    }


def _import_system() -> dict[str, str]:
    return {
        "path": repr(sys.path),
        "finders": repr([repr_of(finder) for finder in sys.meta_path]),
        "hooks": repr([repr_of(hook) for hook in sys.path_hooks]),
        "no bytecode": str(sys.dont_write_bytecode),
    }


def repr_of(value: Any) -> str:
    """Name a function or an object without its address."""
    if value is None or isinstance(value, (int, str)):
        return str(value)
    name = getattr(value, "__qualname__", None)
    owner = getattr(value, "__module__", None)
    return f"{owner}.{name}" if name else f"a {type(value).__module__}.{type(value).__qualname__}"
