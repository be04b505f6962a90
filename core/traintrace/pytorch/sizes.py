"""Read the true size of a batch from its shapes, without touching its values on a device."""

from collections.abc import Mapping
from typing import Any

import torch


def batch_sizes(batch: Any) -> tuple[int | None, int | None, int | None]:
    """Give the sizes of a tensor, or of a tuple, list, mapping or HF batch of tensors.

    Returns:
        Samples (length of the first dimension of the first tensor), tokens without padding (the sum
        of a CPU `attention_mask`) and padded tokens (elements of `input_ids`); None where the batch
        does not tell.
    """
    kind = type(batch)
    first = batch[0] if (kind is tuple or kind is list) and batch else batch
    if type(first) is torch.Tensor:  # the usual case, fast
        return (len(first), None, None) if first.dim() else (None, None, None)
    if isinstance(batch, Mapping):
        ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        padded = ids.numel() if isinstance(ids, torch.Tensor) else None
        tokens = None
        if isinstance(mask, torch.Tensor) and mask.device.type == "cpu":
            tokens = int(mask.sum())
        return _samples(batch), tokens, padded
    return _samples(batch), None, None


def _samples(batch: Any, depth: int = 0) -> int | None:
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else None
    if depth > 3:
        return None
    if isinstance(batch, Mapping):
        batch = batch.values()
    elif not isinstance(batch, (tuple, list)):
        return None
    for item in batch:
        size = _samples(item, depth + 1)
        if size is not None:
            return size
    return None
