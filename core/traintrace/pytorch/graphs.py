"""Keep the tracer's own frames out of compiled graphs, and know whether there are graphs."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

Function = TypeVar("Function", bound=Callable[..., Any])


def outside_graphs(function: Function) -> Function:
    """Never let the compiler start a graph at a frame of `function`; give the function.

    A frame of ours between the compiler's and the user's would become the root of a graph in place of
    the user's: one graph more when tracing starts or ends, and one where torch itself compiles none.
    The frames that it calls are compiled as ever, and so is the function where it is inlined.

    Works without importing the compiler. The names are private: a torch that has none of them
    compiles our frames, which costs graphs and changes no result.
    """
    code = getattr(function, "__code__", None)
    frames: Any = getattr(torch._C, "_dynamo", None)
    frames = getattr(frames, "eval_frame", None)
    if code is None or frames is None:
        return function
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction
        strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
        frames.set_code_exec_strategy(code, strategy)
    elif hasattr(frames, "skip_code"):
        frames.skip_code(code)
    return function


def graphs_exist() -> bool:
    """Say whether anything was compiled in this process so far."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters: Any = getattr(utils, "counters", None)  # none while the compiler is being imported
    return counters is not None and bool(counters["stats"].get("unique_graphs"))


def runs_compiled(module: nn.Module) -> bool:
    """Say whether this module was compiled: wrapped by `torch.compile`, or in place."""
    in_place: Any = vars(module).get("_compiled_call_impl")
    # What a tracer puts there is no compiled call.
    is_ours = hasattr(in_place, "__traintrace_done__")
    return (in_place is not None and not is_ours) or type(module).__name__ == "OptimizedModule"
