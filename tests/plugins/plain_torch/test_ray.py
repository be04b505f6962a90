"""Workers of Ray Train. CI has no Ray and skips those tests that start a cluster (half a minute each).

To run them, let another environment see this one and install Ray there: `make check-ray`.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from traintrace import UsageError, open_run
from traintrace_plain_torch.ray import trace_worker

COLUMNS = ["micro_batches", "forward_calls", "optimizer_calls"]


def _train(config: dict[str, Any]) -> None:
    import torch

    ray_torch: Any = import_module("ray.train.torch")

    model = ray_torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data: Any = [torch.ones(4)] * 24
    loader = ray_torch.prepare_data_loader(
        torch.utils.data.DataLoader(data, batch_size=2),
    )
    for _ in range(2):
        for batch in loader:
            model(batch).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    if config.get("fails"):
        raise RuntimeError("as asked")


def test_options_are_checked_where_the_function_is_made() -> None:
    with pytest.raises(UsageError, match="level"):
        trace_worker(_train, level="loud")


def test_without_ray_the_function_does_what_it_did(tmp_path: Path) -> None:
    calls: list[Any] = []
    trace_worker(calls.append, run_dir=tmp_path, print_report=False)({"lr": 1})
    assert calls == [{"lr": 1}]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    here = str(Path(__file__).parents[3])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": here}},
    )
    yield ray
    ray.shutdown()


def _fit(ray: Any, folder: Path, config: dict[str, Any]) -> None:
    trainer = import_module("ray.train.torch").TorchTrainer(
        trace_worker(_train, run_dir=folder / "runs"),
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=False),
        run_config=ray.train.RunConfig(storage_path=str(folder / "ray")),
    )
    trainer.fit()


def test_all_workers_are_one_run(cluster: Any, tmp_path: Path) -> None:
    _fit(cluster, tmp_path, {})
    (run,) = (tmp_path / "runs").iterdir()
    facts = open_run(run).facts(COLUMNS)
    assert facts.status == "completed"
    assert [rank.rank for rank in facts.ranks] == [0, 1]
    for rank in facts.ranks:
        assert rank.columns["micro_batches"] == [1] * 12
        assert rank.columns["forward_calls"] == [1] * 12
        assert rank.columns["optimizer_calls"] == [1] * 12
        assert not {"input_wait", "forward", "backward"} & set(rank.unmeasured)
    assert (run / "final_summary.json").is_file()


def test_a_worker_that_fails_is_a_failed_run(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="as asked"):
        _fit(cluster, tmp_path, {"fails": True})
    (run,) = (tmp_path / "runs").iterdir()
    facts = open_run(run).facts(COLUMNS)
    assert facts.status == "failed"
    assert facts.ranks[0].totals.steps == 12
