"""Read the true size of a batch from its shapes, without touching its values on a device."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch


class BatchSizes(NamedTuple):
    """Sizes of one micro-batch; None where the batch does not tell.

    Attributes:
        samples: Length of the first dimension of its first tensor.
        tokens: Tokens without padding: the sum of a CPU `attention_mask`.
        padded_tokens: Elements of `input_ids`.
    """

    samples: int | None = None
    tokens: int | None = None
    padded_tokens: int | None = None


def batch_sizes(batch: Any) -> BatchSizes:
    """Give the sizes of a tensor, or of a tuple, list, mapping or HF batch of tensors."""
    kind = type(batch)
    if (kind is tuple or kind is list) and batch and type(batch[0]) is torch.Tensor:
        return BatchSizes(batch[0].shape[0] if batch[0].dim() else None)  # the usual case, fast
    if isinstance(batch, Mapping):
        ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        padded = ids.numel() if isinstance(ids, torch.Tensor) else None
        tokens = None
        if isinstance(mask, torch.Tensor) and mask.device.type == "cpu":
            tokens = int(mask.sum())
        return BatchSizes(_samples(batch), tokens, padded)
    return BatchSizes(_samples(batch))


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
