"""Where counting could change what training computes: steps in which it is refused, and how that is seen.

A dispatch mode of torch keeps autocast out of what an operation calls inside itself, and in backward some
formulas of autograd take another way while one is entered. Most operations are the same to the bit all the
same; those below are not, or nobody has shown it.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

from traintrace.facts import Setup
from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import graphs_exist, outside_graphs

COMPILED: Final = "torch compiled something here, and counting could change its graphs; give flops_per_step as a number"
SHARED: Final = (
    "the model is shared in pieces ({}), where counting is not proven to leave it alone; "
    "give flops_per_step as a number"
)
# nn.Bilinear and torch.linalg.pinv give other results there (torch 2.13); the rest is not proven.
CPU_AUTOCAST: Final = (
    "autocast is on for the CPU, where counting is not proven to leave results alone; "
    "give flops_per_step as a number"
)
DIFFERENTIATED: Final = (
    "counting would change the last bits of the gradient of {}; give flops_per_step as a number"
)
_WHOLE_MODELS: Final = (None, "single_process", "ddp", "distributed_unknown")
# Nodes whose backward takes another way while a dispatch mode is entered, if it goes through the input of this
# place (torch 2.13, by its own test cases, of which all others give the same bits), and what people call them.
_OTHER_WAY: Final = {
    "ProdBackward0": (0, "torch.prod"),
    "ProdBackward1": (0, "torch.prod"),
    "MaskedFillBackward1": (1, "the value of masked_fill"),
}


def reason_against(setup: Setup) -> str:
    """Say why no step of a run with this `setup` is counted; "" if steps are."""
    if setup.compiled or graphs_exist():
        return COMPILED
    return "" if setup.strategy in _WHOLE_MODELS else SHARED.format(setup.strategy)


def reason_against_backward(tensors: object) -> str:
    """Say why the backward of `tensors`, one or several, is not to be counted; "" if it is."""
    roots = tensors if isinstance(tensors, list | tuple) else (tensors,)
    # A root is a tensor, or the edge of a graph.
    ahead: list[Any] = [getattr(root, "grad_fn", getattr(root, "node", None)) for root in roots]
    seen: set[Any] = set()
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        inputs = [following for following, _ in node.next_functions]
        place, told = _OTHER_WAY.get(node.name(), (0, ""))
        if told and place < len(inputs) and inputs[place] is not None:
            return DIFFERENTIATED.format(told)
        ahead += inputs
    return ""


def under_cpu_autocast() -> bool:
    """Say whether autocast is on for the CPU, on this thread."""
    return torch.is_autocast_enabled("cpu")


def told_of_cpu_autocast(told: Callable[[], None]) -> Callable[[], None]:
    """Call `told` each time that somebody switches autocast on for the CPU; give what undoes it.

    It is called on the thread that does so, before anything runs under it. `torch.autocast` looks the
    function up when it is entered.
    """
    original = torch.set_autocast_enabled

    @outside_graphs
    @functools.wraps(original)
    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if torch.is_autocast_enabled("cpu"):
            told()

    return replace_attribute(torch, "set_autocast_enabled", set_autocast_enabled)
