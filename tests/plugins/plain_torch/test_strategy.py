"""Which strategy a model's wrappers tell; fakes stand for libraries that are not installed here."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import traintrace_reporting
from traintrace.pytorch.strategy import STRATEGIES, strategy_of


@pytest.fixture
def group(tmp_path: Path) -> object:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class DeepSpeedEngine(nn.Module):
    """As DeepSpeed's engine is called, whose own subclasses are engines too."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


class PipelineEngine(DeepSpeedEngine):
    pass


def test_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert strategy_of(Blocks()) == "single_process"
    assert strategy_of(nn.DataParallel(Blocks())) == "dp"
    assert strategy_of(PipelineEngine(Blocks())) == "deepspeed"


def test_a_bare_model_of_a_larger_job_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert strategy_of(Blocks()) == "distributed_unknown"


@pytest.mark.usefixtures("group")
def test_replicas_compiled_or_not() -> None:
    wrapped = DistributedDataParallel(Blocks())
    assert strategy_of(wrapped) == "ddp"
    assert strategy_of(torch.compile(wrapped, backend="eager")) == "ddp"  # type: ignore[arg-type]


@pytest.mark.usefixtures("group")
def test_both_kinds_of_sharding_are_told_apart() -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    mesh = init_device_mesh("cpu", (1,))
    model = Blocks()
    fsdp.fully_shard(model.first, mesh=mesh)  # blocks alone, under a root that is not sharded
    assert strategy_of(model) == "fsdp2"
    fsdp.fully_shard(model, mesh=mesh)
    assert strategy_of(model) == "fsdp2"
    compiled: Any = torch.compile(model, backend="eager")
    assert strategy_of(compiled) == "fsdp2"
    with pytest.warns(UserWarning, match="NO_SHARD"):  # of one process
        wrapped = fsdp.FullyShardedDataParallel(Blocks(), device_id="cpu")
    assert strategy_of(wrapped) == "fsdp"


def test_the_published_schema_has_the_same_vocabulary() -> None:
    schema = Path(traintrace_reporting.__file__).parent / "schema" / "final_summary.schema.json"
    setup = json.loads(schema.read_text("utf-8"))["properties"]["setup"]
    assert setup["properties"]["strategy"]["examples"] == [*STRATEGIES]
