"""Counting the operations of steps of a Trainer: exact, the same to the bit; and 6ND beside it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from tests.labs.counted import no_graphs
from traintrace import open_run
from traintrace.facts import RankFacts
from traintrace.pytorch.dense import dense_model
from traintrace_huggingface import TraceCallback

__all__ = ["no_graphs"]

BATCH, LENGTH, WIDTH, WORDS = 2, 8, 16, 32
CONFIG: dict[str, Any] = {
    "n_layer": 1, "n_embd": WIDTH, "n_head": 2, "vocab_size": WORDS, "n_positions": LENGTH,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
# Of one token: query, key, value; projection; two layers of four times the width; the output layer.
MATRICES = 3 * WIDTH**2 + WIDTH**2 + 2 * 4 * WIDTH**2 + WORDS * WIDTH


class Kept(TraceCallback):
    """Keeps the loss of each log."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.losses: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        self.losses += [logs["loss"]] if "loss" in logs else []


def train(folder: Path, accumulate: int, **options: Any) -> tuple[Kept, GPT2LMHeadModel]:
    set_seed(5)
    model, callback = GPT2LMHeadModel(GPT2Config(**CONFIG)), Kept(run_dir=folder, **options)
    generator = torch.Generator().manual_seed(1)
    texts = torch.randint(0, WORDS, (9 * accumulate * BATCH, LENGTH), generator=generator)
    arguments = TrainingArguments(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=accumulate,
        num_train_epochs=1,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    data: Any = [{"input_ids": text, "labels": text} for text in texts]
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback]).train()
    return callback, model


def rank_of(callback: TraceCallback) -> RankFacts:
    assert callback.run_folder is not None
    return open_run(callback.run_folder).facts(["step", "flags"]).ranks[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accumulate", [1, 4])
def test_steps_are_counted_and_training_is_the_same(tmp_path: Path, accumulate: int) -> None:
    plain, plain_model = train(tmp_path, accumulate, enabled=False, print_report=False)
    counted, model = train(tmp_path, accumulate, flops_per_step="count", print_report=False)
    assert counted.losses == plain.losses != []
    for one, other in zip(model.parameters(), plain_model.parameters(), strict=True):
        assert torch.equal(one, other)
    rank = rank_of(counted)
    assert rank.flops is not None
    tokens = accumulate * BATCH * LENGTH
    products = 3 * 2 * tokens * MATRICES
    scores = 2 * accumulate * BATCH * LENGTH * LENGTH * WIDTH  # one product of attention
    # Dropout keeps attention from being fused: its backward has four products and makes none again.
    expected = products + (2 + 4) * scores
    found = {one.step: one.total for one in rank.flops.counted}
    assert found == {3: expected, 8: expected}
    assert [one.padded_tokens for one in rank.flops.counted] == [tokens] * 2
    # 6ND leaves the scores out, and has the small parameters that nothing is multiplied with.
    assert rank.setup.dense is not None
    assert 0 < rank.setup.dense.parameters - MATRICES < 0.15 * MATRICES


def test_6nd_is_for_known_models_that_train_whole() -> None:
    model = GPT2LMHeadModel(GPT2Config(**CONFIG))
    known = dense_model(model)
    assert known is not None
    assert known.kind == "gpt2"
    # Places are looked up; words are too, and are the output layer as well.
    everything = sum(parameter.numel() for parameter in model.parameters())
    assert known.parameters == everything - LENGTH * WIDTH
    around = torch.nn.Module()
    around.inner = model
    assert dense_model(around) == known
    model.transformer.wpe.requires_grad_(False)
    assert dense_model(model) is None
    model.transformer.wpe.requires_grad_(True)
    config: Any = model.config
    config.model_type = "mixtral"  # not every parameter meets every token
    assert dense_model(model) is None
    assert dense_model(torch.nn.Linear(2, 2)) is None
