"""How much an operation of torch computes, and in which number format.

Torch has the formulas of matrix products, convolutions and attention; a few that it lacks stand here. Two
operations make a multiplication with its addition. Attention is counted whole, also where a mask lets half
of it be left out, and the backward of fused attention with the scores that it makes again, as torch does.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import torch
from torch.utils import flop_counter as untyped_counter

_aten: Final = torch.ops.aten
_flop_counter: Final[Any] = untyped_counter
_FORMATS: Final = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}
# Operations of these names never are matrix products.
_LIGHT_SPACES: Final = frozenset(("aten", "prim", "prims", "c10d", "_c10d_functional", "profiler"))
# Of torch's own those that are heavy, and for which nobody has a formula.
_HEAVY: Final = (
    "rnn",
    "_thnn",
    "_grouped_mm",
    "_int_mm",
    "_sparse_",
    "addbmm",
    "fft",
    "_cdist",
    "_trilinear",
)


def _linear(args: Sequence[Any], out: Any) -> int:
    return 2 * int(out.numel()) * int(args[1].shape[-1])


def _linear_backward(args: Sequence[Any], out: Any) -> int:
    grad, weight = args[1], args[2]
    each = 2 * int(grad.numel()) * int(weight.shape[-1])
    return each * sum(1 for one in out[:2] if one is not None)


def _attention(args: Sequence[Any], out: Any) -> int:
    del out
    query, key, value = args[:3]
    return int(_flop_counter.sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_backward(args: Sequence[Any], out: Any) -> int:
    del out
    grad, query, key, value = args[:4]
    return int(
        _flop_counter.sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape)
    )


def _vector(args: Sequence[Any], out: Any) -> int:
    del out
    return 2 * int(prod(args[0].shape))


def _recurrent(args: Sequence[Any], out: Any) -> int:
    """Count a layer that one operation unrolls: each position meets each matrix once."""
    del out
    given, weights = args[0], args[1] if isinstance(args[1], list | tuple) else args[1:3]
    positions = int(given.numel()) // int(given.shape[-1])
    return 2 * positions * sum(int(one.numel()) for one in weights if one.dim() > 1)


def _recurrent_backward(args: Sequence[Any], out: Any) -> int:
    return 2 * _recurrent(args, out)


_OWN: Final[Mapping[Any, Callable[[Sequence[Any], Any], int]]] = {
    operation: formula
    for name, formula in (
        ("linear", _linear),
        ("linear_backward", _linear_backward),
        ("mv", _vector),
        ("dot", _vector),
        ("vdot", _vector),
        ("mkldnn_rnn_layer", _recurrent),
        ("mkldnn_rnn_layer_backward", _recurrent_backward),
        ("_cudnn_rnn", _recurrent),
        ("_cudnn_rnn_backward", _recurrent_backward),
        ("miopen_rnn", _recurrent),
        ("miopen_rnn_backward", _recurrent_backward),
        ("_scaled_dot_product_flash_attention_for_cpu", _attention),
        ("_scaled_dot_product_flash_attention_for_cpu_backward", _attention_backward),
    )
    if (operation := getattr(_aten, name, None)) is not None
}
_CONVOLUTIONS: Final = frozenset(
    getattr(_aten, name)
    for name in ("convolution", "_convolution", "cudnn_convolution", "convolution_backward")
    if hasattr(_aten, name)
)


def operations(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> int | None:
    """Give the operations of one call; 0 for what has none, None where no formula knows it."""
    packet = getattr(func, "_overloadpacket", func)
    own = _OWN.get(packet)
    if own is not None:
        return own(args, out)
    formula = _flop_counter.flop_registry.get(packet)
    return None if formula is None else int(formula(*args, **kwargs, out_val=out))


def heavy_and_unknown(func: Any) -> bool:
    """Say whether an operation without a formula may be matrix work: another library's, or a heavy one."""
    space = getattr(func, "namespace", "")
    if space in _LIGHT_SPACES:
        return any(part in str(func) for part in _HEAVY)
    return True


def format_of(func: Any, args: Sequence[Any], tf32: tuple[bool, bool]) -> str:
    """Give the number format that an operation multiplies in.

    Args:
        func: The operation.
        args: Its arguments; the first matrix among them decides, or the first vector where there is none.
        tf32: Whether matrix products, and convolutions, of float32 run in TF32.
    """
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    tensor = next((one for one in tensors if one.dim() > 1), tensors[0])
    name = _FORMATS.get(tensor.dtype)
    if name is None:
        plain = str(tensor.dtype).removeprefix("torch.")
        return "fp8" if plain.startswith("float8") else plain
    if name == "fp32" and tensor.device.type == "cuda":
        is_convolution = getattr(func, "_overloadpacket", func) in _CONVOLUTIONS
        return "tf32" if tf32[is_convolution] else "fp32"
    return name


def uses_tf32() -> tuple[bool, bool]:
    """Say whether matrix products, and convolutions, of float32 may run in TF32 on NVIDIA devices."""
    products: Any = torch.backends.cuda.matmul
    convolutions: Any = getattr(torch.backends.cudnn, "conv", None)
    # The newer names first: torch refuses to read the older ones where somebody set a newer one.
    precise = getattr(products, "fp32_precision", None)
    if precise is None:  # before torch 2.9
        return torch.get_float32_matmul_precision() != "highest", torch.backends.cudnn.allow_tf32
    return precise in ("tf32", "bf16"), getattr(convolutions, "fp32_precision", "tf32") == "tf32"
