"""What runs inside backward: recomputed blocks, and updates made there."""

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_block_that_is_computed_again_is_backward(lab: Any, reentrant: bool) -> None:
    class Net(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            # The first call of a step is forward; the second is made by backward.
            lab.work("backward" if lab.taken["blocks"] % 2 else "forward", 5)
            lab.taken["blocks"] += 1
            return super().forward(x)

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net(4, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            batch = batch.requires_grad_()
            return checkpoint(self.net, batch, use_reentrant=reentrant).mean()

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    assert run.taken["blocks"] == 8
    run.check_truth("forward", "backward")
    assert run.steps["forward_calls"] == [1] * 4 == run.steps["backward_calls"]


@pytest.mark.parametrize("automatic", [True, False])
def test_an_update_made_in_backward_is_optimizer(lab: Any, automatic: bool) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = automatic

        def on_train_start(self) -> None:
            for parameter in self.net.parameters():
                optimizer = lab.Update([parameter], lr=1e-3)
                parameter.register_post_accumulate_grad_hook(lambda _, each=optimizer: each.step())

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            if not automatic:
                self.manual_backward(loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0) if automatic else None

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    run.check_truth("forward", "backward", "optimizer")
    # Two parameters, and under automatic optimization Lightning's own update.
    assert run.steps["optimizer_calls"] == [3 if automatic else 2] * 4
    assert min(run.column_ms("optimizer")) >= 4
