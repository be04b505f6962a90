"""A model that trains without its calls being seen: said, wherever else it was called before."""

import time
from pathlib import Path

import pytest
import torch

from tests.labs.torch_loop import BATCH, Net, Recorded, sgd
from traintrace.faults import TraintraceWarning
from traintrace.pytorch import unseen
from traintrace_plain_torch import trace


@pytest.mark.parametrize("marked", [True, False])
def test_a_model_called_in_an_evaluation_alone_is_not_called_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marked: bool
) -> None:
    monkeypatch.setattr(
        unseen, "graphs_exist", lambda: False
    )  # other tests compile in this process
    model = Net()
    optimizer = sgd(model)
    sleeps = model.first.register_forward_hook(lambda *_: time.sleep(0.005))
    with (
        pytest.warns(TraintraceWarning, match="direct children"),
        trace(model, optimizer, run_dir=tmp_path, print_report=False) as tracer,
    ):
        if marked:
            with tracer.evaluating(), torch.no_grad():
                model(BATCH)
        else:
            model(BATCH)
        for batch in tracer.batches([BATCH] * 8):
            with tracer.step():
                model.forward(batch).mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()
    sleeps.remove()
    run = Recorded(tracer)
    assert run.rank.unmeasured["forward"] == "model was not called through __call__"
    assert min(run["forward_ns"][-2:]) >= 5_000_000
