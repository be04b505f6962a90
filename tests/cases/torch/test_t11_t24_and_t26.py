"""T11, T24, T26: what is said of hand-over, of handlers after each step, and of a slow loader."""

import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from tests.labs.torch_loop import BATCH, Net, Recorded, Truth, sgd, trained, update
from traintrace_plain_torch import trace


class Instant(Dataset[torch.Tensor]):
    """Items of 40 MB that cost nothing to make."""

    def __init__(self) -> None:
        self.item = torch.ones(10_000_000)

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.item


def test_t11_the_hint_names_the_hand_over_and_not_the_dataset(tmp_path: Path) -> None:
    """PT#24984, PT#16901: more workers, or a faster dataset, would be the wrong advice."""
    loader = DataLoader(Instant(), num_workers=2)
    model = Net()
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, lambda _: update(model, optimizer), loader)
    assert run.summary["verdict"]["kind"] == "INPUT_BOUND"
    finding = next(f for f in run.summary["findings"] if f["kind"] == "INPUT_BOUND")
    assert finding["evidence"]["batch_bytes"] == 40_000_000
    assert finding["evidence"]["limited_by"] == "handover"
    assert "not the dataset" in finding["why"]
    assert "Hand over less" in finding["action"]


def test_t24_what_handlers_take_after_each_step_is_the_finding_and_says_what_to_mark(
    tmp_path: Path,
) -> None:
    """pytorch/ignite#1346, #1104, #63: the time of handlers was hidden in totals."""
    truth, model = Truth(), Net()
    optimizer = sgd(model)
    with trace(model, optimizer, run_dir=tmp_path, print_report=False) as tracer:
        for batch in tracer.batches([BATCH] * 14):
            with tracer.step():
                update(model, optimizer, batch)
            truth.sleep("gap", 60)
    run = Recorded(tracer)
    (finding,) = (f for f in run.summary["findings"] if f["kind"] == "GAP")
    # What follows the last step is shutdown; all the others are named in full.
    assert finding["cost_s"] >= 13 * 0.060
    assert "with nearly every step" in finding["why"]
    assert "Mark it" in finding["action"]
    assert run.summary["verdict"]["kind"] == "GAP"


class SlowItems(Dataset[torch.Tensor]):
    """Items that take 90 ms each, as from a slow disk."""

    def __len__(self) -> int:
        return 14

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.09)
        return torch.ones(4)


def test_t26_a_run_that_waits_for_its_loader_has_that_verdict_with_share_and_one_action(
    tmp_path: Path,
) -> None:
    """facebookresearch/mmf#1166, ClinicalDG#2: 60 to 89 % of the time was the loader, and users guessed."""
    truth = Truth()
    model = Net(truth, forward_ms=5, backward_ms=5)
    optimizer = sgd(model)
    loader = DataLoader(SlowItems(), num_workers=0)
    run = trained(tmp_path, model, optimizer, lambda batch: update(model, optimizer, batch), loader)
    verdict = run.summary["verdict"]
    assert verdict["kind"] == "INPUT_BOUND"
    assert verdict["severity"] == "critical"
    (finding,) = (f for f in run.summary["findings"] if f["kind"] == "INPUT_BOUND")
    work_s = (truth.ns["forward"] + truth.ns["backward"]) / 1e9
    assert finding["evidence"]["share"] >= 0.9 * 14 * 0.09 / (14 * 0.09 + work_s)
    assert "Set num_workers=" in verdict["action"]
    # Items of 90 ms in steps of 10 ms of work, more of it on a busy machine.
    waits, steps = run["input_wait_ns"], run["duration_ns"]
    fitting = sum(waits) / (sum(steps) - sum(waits))
    assert 0.6 * fitting <= finding["evidence"]["workers_needed_count"] <= 1.5 * fitting + 1
