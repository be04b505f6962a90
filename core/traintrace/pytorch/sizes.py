"""Read the true size of a batch from its shapes, without touching its values on a device."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

Sizes = tuple[int | None, int | None, int | None]
UNKNOWN: Sizes = (None, None, None)


class SizeReader:
    """Reads the sizes of one loader's batches.

    A list of tensors may be one tensor per field, stacked over samples, or one tensor per sample (as a
    detection model wants it). The loader's batch size tells which, at the first batch where it can.
    """

    __slots__ = ("_batch_size", "_is_listed")

    def __init__(self, batch_size: int | None = None) -> None:
        self._batch_size = batch_size
        self._is_listed: bool | None = False if batch_size is None else None

    @property
    def is_stacked(self) -> bool:
        """Say whether lists of this loader are known to hold one tensor per field."""
        return self._is_listed is False

    def read(self, batch: Any) -> Sizes:
        """Give samples, tokens and padded tokens; see `batch_sizes`."""
        first = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
        if not isinstance(first, torch.Tensor):
            return batch_sizes(batch)
        if not first.dim():
            return UNKNOWN
        if first is batch or self._is_listed is False:
            return first.size(0), None, None
        return self._read_list(first.size(0), len(batch)), None, None

    def _read_list(self, stacked: int, listed: int) -> int | None:
        """Give the samples of a list of tensors: `stacked` in the first tensor, `listed` tensors."""
        if self._is_listed is None:
            if stacked == self._batch_size:
                self._is_listed = False
            elif listed == self._batch_size:
                self._is_listed = True
            else:
                return None  # a short batch, or a batch size of another unit: it does not tell
        return listed if self._is_listed else stacked


def batch_sizes(batch: Any) -> Sizes:
    """Give the sizes of a tensor, or of a tuple, list, mapping or HF batch of tensors.

    Returns:
        Samples (length of the first dimension of the first tensor, or of the first inner list of
        tensors), tokens without padding (the sum of a CPU `attention_mask`) and padded tokens (elements
        of `input_ids`); None where the batch does not tell.
    """
    if isinstance(batch, Mapping):
        ids, mask = batch.get("input_ids"), batch.get("attention_mask")
        padded = ids.numel() if isinstance(ids, torch.Tensor) else None
        tokens = None
        if isinstance(mask, torch.Tensor) and mask.device.type == "cpu":
            tokens = int(mask.sum())
        return _samples(batch, 0), tokens, padded
    return _samples(batch, 0), None, None


def batch_bytes(batch: Any) -> int | None:
    """Give the bytes of all tensors in a batch, on whichever device; None if it holds none.

    A tensor without plain storage (sparse, nested) makes it unknown.
    """
    try:
        sizes = [tensor.nbytes for tensor in _tensors(batch, 0)]
    except (RuntimeError, AttributeError):
        return None
    return sum(sizes) if sizes else None


def _tensors(batch: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(batch, torch.Tensor):
        yield batch
    elif depth <= 3 and isinstance(batch, (Mapping, tuple, list)):
        for item in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _tensors(item, depth + 1)


def _samples(batch: Any, depth: int) -> int | None:
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else None
    if depth > 3:
        return None
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    elif not isinstance(batch, (tuple, list)):
        return None
    elif depth and batch and isinstance(batch[0], torch.Tensor):
        return len(batch)  # a field that holds one tensor per sample
    for item in batch:
        size = _samples(item, depth + 1)
        if size is not None:
            return size
    return None
