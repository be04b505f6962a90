"""The bytes of a training batch: those of its tensors, taken from the first batch that was trained on."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.labs.untouched import Net, loader_of, make_untouched, rank_of, update
from traintrace.pytorch import setup as describing
from traintrace.pytorch.sizes import batch_bytes
from traintrace_plain_torch import trace

X = torch.ones(2, 4)  # 32 bytes


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (X, 32),
        (X.to(torch.bfloat16), 16),
        ([X, torch.ones(2, dtype=torch.int64)], 48),
        ({"image": X, "name": ["a", "b"], "more": {"mask": torch.ones(4, dtype=torch.bool)}}, 36),
        ((X[:, :2],), 16),
        ([], None),
        ("words", None),
        (object(), None),
        ([X, X.to_sparse()], None),
    ],
)
def test_the_bytes_are_those_of_all_tensors_or_unknown(batch: Any, expected: int | None) -> None:
    assert batch_bytes(batch) == expected


def test_a_batch_that_holds_itself_ends() -> None:
    batch: list[Any] = [X]
    batch.append(batch)
    assert batch_bytes(batch) == 4 * 32  # as deep as batches go


def test_only_the_first_batch_is_weighed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: list[Any] = []

    def weigh(batch: Any) -> int | None:
        weighed.append(batch)
        return batch_bytes(batch)

    monkeypatch.setattr(describing, "batch_bytes", weigh)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with trace(model, optimizer, run_dir=tmp_path, print_report=False) as tracer:
        for _ in range(2):
            for batch in tracer.batches([torch.ones(3, 4), X]):
                with tracer.step():
                    update(model, optimizer, batch)
    assert len(weighed) == 1
    assert rank_of(tracer).setup.batch_bytes == 48


def test_a_validation_in_doubt_is_not_taken_for_training(tmp_path: Path) -> None:
    tracer, model, optimizer = make_untouched(tmp_path)()
    with tracer:
        model.eval()
        for batch in loader_of(10, batch_size=5):
            model(batch)  # with gradients on: it may be training, until nothing follows
        model.train()
        for batch in loader_of(4):
            update(model, optimizer, batch)
    assert rank_of(tracer).setup.batch_bytes == 32
