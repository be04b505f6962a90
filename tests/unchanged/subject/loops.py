"""Hand-written loops: plain PyTorch, Accelerate and Fabric; traced by `trace` where asked to."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from tests.unchanged.subject.recipe import (
    ACCUMULATION,
    CLIP_NORM,
    EPOCHS,
    Diary,
    evaluating,
    evaluation_loader,
    is_last,
    optimizer_and_scheduler,
    training_loader,
    updates_at,
)

Objects = dict[str, Any]


class Untraced(nullcontext[Any]):
    """Stands for the tracer in a loop that is not traced."""

    def batches(self, loader: Any) -> Any:
        return loader

    def step(self) -> AbstractContextManager[None]:
        return nullcontext()


def _tracer(traced: bool, *arguments: Any) -> Any:
    if not traced:
        untraced = Untraced()
        untraced.enter_result = untraced
        return untraced
    from traintrace_plain_torch import trace

    return trace(*arguments)


def _evaluate(model: Any, diary: Diary, loader: Any) -> None:
    with evaluating(model):
        for batch in loader:
            diary.note_evaluation(model(**batch)["loss"])


def train_plain(model: nn.Module, diary: Diary, traced: bool) -> Objects:
    optimizer, scheduler = optimizer_and_scheduler(model)
    loader = training_loader()
    with _tracer(traced, model, optimizer) as tracer:
        batches = tracer.batches(loader)
        for _ in range(EPOCHS):
            for index, batch in enumerate(batches):
                with tracer.step():
                    loss = model(**batch)["loss"] / ACCUMULATION
                    loss.backward()
                    if updates_at(index):
                        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
                        diary.note_gradients(model)
                        optimizer.step()
                        scheduler.step()
                        optimizer.zero_grad()
                diary.note_loss(loss, model=model, optimizer=optimizer, batch=batch)
            diary.note_random_state()
            _evaluate(model, diary, evaluation_loader())
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, "checkpoint.pt")
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader}


def train_accelerate(model: nn.Module, diary: Diary, traced: bool) -> Objects:
    from accelerate import Accelerator  # type: ignore[import-untyped]  # it has no types

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATION)
    optimizer, scheduler = optimizer_and_scheduler(model)
    parts = accelerator.prepare(model, optimizer, training_loader(), scheduler)
    model, optimizer, loader, scheduler = parts
    with _tracer(traced, model, optimizer) as tracer:
        batches = tracer.batches(loader)
        for _ in range(EPOCHS):
            for batch in batches:
                with tracer.step(), accelerator.accumulate(model):
                    loss = model(**batch)["loss"]
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
                        diary.note_gradients(model)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                diary.note_loss(loss, model=model, optimizer=optimizer.optimizer, batch=batch)
            diary.note_random_state()
            _evaluate(model, diary, accelerator.prepare(evaluation_loader()))
            accelerator.save_state("checkpoint")
    return {
        **{"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader},
        "accelerator": accelerator,
    }


def train_fabric(model: nn.Module, diary: Diary, traced: bool) -> Objects:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    plain_optimizer, scheduler = optimizer_and_scheduler(model)
    wrapped, optimizer = fabric.setup(model, plain_optimizer)
    loader: Any = fabric.setup_dataloaders(training_loader())
    with _tracer(traced, wrapped, optimizer) as tracer:
        batches = tracer.batches(loader)
        for _ in range(EPOCHS):
            for index, batch in enumerate(batches):
                with tracer.step(), fabric.no_backward_sync(wrapped, enabled=not updates_at(index)):
                    loss = wrapped(**batch)["loss"] / ACCUMULATION
                    fabric.backward(loss)
                    if updates_at(index):
                        fabric.clip_gradients(wrapped, optimizer, max_norm=CLIP_NORM)
                        diary.note_gradients(wrapped)
                        optimizer.step()
                        scheduler.step()
                        optimizer.zero_grad()
                diary.note_loss(loss, model=model, optimizer=plain_optimizer, batch=batch)
                if is_last(index):
                    diary.note_random_state()
            _evaluate(wrapped, diary, fabric.setup_dataloaders(evaluation_loader()))
            fabric.save("checkpoint.ckpt", {"model": wrapped, "optimizer": optimizer})
    return {
        **{"model": wrapped, "optimizer": optimizer, "scheduler": scheduler, "loader": loader},
        "fabric": fabric,
    }


Train = Callable[[nn.Module, Diary, bool], Objects]
