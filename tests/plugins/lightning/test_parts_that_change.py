"""Models that change between epochs: what is added or replaced then is `forward` too."""

import gc
import inspect
import weakref
from typing import Any

from torch import nn

from tests.plugins.lightning.test_parts import _Used
from traintrace import facts


def _model(lab: Any, at_epoch: Any) -> Any:
    """Make a model of a list of blocks that changes at each epoch's start."""

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([lab.Net(4, 4)])

        def on_train_epoch_start(self) -> None:
            at_epoch(self, self.current_epoch)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            for block in self.blocks:
                batch = block.encode(batch) if isinstance(block, _Used) else block(batch)
            return super().training_step(batch, batch_idx)

    return Model()


def test_blocks_that_are_added_are_forward(lab: Any) -> None:
    def grow(model: Any, epoch: int) -> None:
        if epoch:
            model.blocks.append(lab.Net(4, 4))

    run = lab.fit(_model(lab, grow), lab.loader(2, 0), max_epochs=4)
    run.check_books()
    run.check_truth("forward")
    assert run.steps["forward_calls"] == [2, 2, 3, 3, 4, 4, 5, 5]
    assert not any(run.flagged(facts.WARMUP))


def test_a_block_that_is_added_and_only_used_is_looked_into(lab: Any) -> None:
    def grow(model: Any, epoch: int) -> None:
        if epoch == 1:
            block: Any = _Used()
            block.inner = lab.Net(4, 4)
            model.blocks.append(block)

    run = lab.fit(_model(lab, grow), lab.loader(3, 0), max_epochs=2)
    run.check_books()
    # The first step with the new block may have called what is not traced: it tells no forward.
    assert run.steps["forward_calls"] == [2, 2, 2, 0, 3, 3]
    assert run.column_ms("forward")[3] is None
    assert run.flagged(facts.WARMUP) == [False] * 3 + [True] + [False] * 2
    assert min(run.column_ms("forward")[4:]) >= 9


def test_a_block_that_is_replaced_is_forward_and_the_old_one_leaves_memory(lab: Any) -> None:
    alive: list[int] = []
    old: list[Any] = []

    def replace(model: Any, epoch: int) -> None:
        gc.collect()
        alive.append(sum(reference() is not None for reference in old))
        old.append(weakref.ref(model.blocks[0]))
        model.blocks[0] = lab.Net(4, 4)

    run = lab.fit(_model(lab, replace), lab.loader(1, 0), max_epochs=12)
    run.check_books()
    run.check_truth("forward")
    assert run.steps["forward_calls"] == [2] * 12
    assert alive == [0] * 12


def test_replacing_parts_for_ever_adds_no_layers_to_a_call(lab: Any) -> None:
    depths: list[int] = []

    class Deep(lab.Net):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            depths.append(len(inspect.stack(0)))
            return super().forward(x)

    def replace(model: Any, epoch: int) -> None:
        model.blocks[0] = Deep(4, 4)

    lab.fit(_model(lab, replace), lab.loader(1, 0), max_epochs=12)
    assert depths[1:] == depths[1:2] * 11
