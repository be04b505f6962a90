"""What tells waiting for other ranks apart costs a process on its own nothing: it is not installed."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.labs.torch_loop import BATCH, sgd, trained, update
from traintrace.pytorch.optimizer import parameters_of
from traintrace.pytorch.strategy import has_other_processes

COLLECTIVES = ("all_reduce", "barrier", "broadcast_object_list", "monitored_barrier")


@pytest.fixture
def one_rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    exported: Any = dist  # it exports no stores to mypy
    dist.init_process_group("gloo", store=exported.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def installed(model: nn.Module) -> list[Any]:
    """Give all that could have been replaced or hooked."""
    functions: Any = [getattr(dist, name) for name in COLLECTIVES]
    below = [cell.cell_contents for one in functions for cell in one.__closure__ or ()]
    hooks: Any = [one._post_accumulate_grad_hooks for one in model.parameters()]
    return [*functions, *below, DistributedDataParallel._sync_buffers, *hooks]


def check_untouched(tmp_path: Path, model: nn.Module) -> None:
    before, during = installed(model), []
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        during.append(installed(model))
        update(model, optimizer, batch)

    run = trained(tmp_path, model, optimizer, step, batches=[BATCH] * 3)
    assert during == [before] * 3
    assert run["gradient_sync_ns"] == [None] * 3


def test_nothing_is_installed_without_a_process_group(tmp_path: Path) -> None:
    check_untouched(tmp_path, nn.Linear(4, 1))


@pytest.mark.usefixtures("one_rank")
def test_nothing_is_installed_for_one_rank(tmp_path: Path) -> None:
    check_untouched(tmp_path, DistributedDataParallel(nn.Linear(4, 1)))


@pytest.mark.parametrize(
    ("size", "several"), [("", False), ("1", False), ("2", True), ("all", False)]
)
def test_a_job_that_does_not_tell_its_size_is_one_process(
    monkeypatch: pytest.MonkeyPatch, size: str, several: bool
) -> None:
    monkeypatch.setenv("WORLD_SIZE", size)
    assert has_other_processes() is several


@pytest.mark.parametrize("groups", [[{"lr": 1.0}], [{"params": ["name"]}], ["group"], None])
def test_an_optimizer_of_another_kind_holds_no_parameters(tmp_path: Path, groups: Any) -> None:
    optimizer = SimpleNamespace(param_groups=groups, step=lambda: None, zero_grad=lambda: None)
    assert [*parameters_of(optimizer)] == []
    model = nn.Linear(4, 1)
    run = trained(tmp_path, model, optimizer, lambda batch: update(model, optimizer, batch))
    assert run["step"] == [1, 2, 3, 4]
