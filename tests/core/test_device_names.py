"""What a device is called in the record: by its whole name, Apple's with their cores, or not at all."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from traintrace.peaks import peaks_of
from traintrace.pytorch.setup import describe_model


class OnMps(nn.Module):
    """A model whose parameters say that they lie on an Apple GPU; none is needed for that."""

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        yield SimpleNamespace(
            device=torch.device("mps"), dtype=torch.float32, numel=lambda: 3, requires_grad=True
        )


def test_an_apple_chip_is_called_by_its_name_and_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "get_name", lambda: "Apple M1 Pro", raising=False)
    monkeypatch.setattr(torch.backends.mps, "get_core_count", lambda: 14, raising=False)
    setup = describe_model(OnMps())
    assert (setup.device_kind, setup.device_name) == ("mps", "Apple M1 Pro (14 GPU cores)")
    assert setup.device_name is not None
    assert peaks_of(setup.device_name) is not None


@pytest.mark.parametrize("missing", ["get_name", "get_core_count"])
def test_a_torch_that_cannot_tell_leaves_the_name_open(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(torch.backends.mps, "get_name", lambda: "Apple M1 Pro", raising=False)
    monkeypatch.setattr(torch.backends.mps, "get_core_count", lambda: 14, raising=False)
    monkeypatch.delattr(torch.backends.mps, missing)
    assert describe_model(OnMps()).device_name is None


def test_a_processor_has_no_name() -> None:
    assert describe_model(nn.Linear(2, 2)).device_name is None


def test_torch_still_tells_both() -> None:
    """If these are gone, every Apple chip loses its name without an error."""
    assert callable(torch.backends.mps.get_name)
    assert callable(torch.backends.mps.get_core_count)
