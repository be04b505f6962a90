"""What tracing takes hold of in transformers, as `module:attribute`: `traintrace doctor` looks whether it is there.

Imports nothing. An attribute that a release lacks costs the split that it stands for, and no more.
"""

from typing import Final

DISTRIBUTION: Final = "transformers"
SEAMS: Final = {
    "transformers.trainer:Trainer.train": "steps",
    "transformers.trainer:Trainer._inner_training_loop": "steps",
    "transformers.trainer:Trainer.get_batch_samples": "input_wait",
    "transformers.trainer:Trainer.training_step": "forward",
    "transformers.trainer:Trainer.log": "logging",
    "transformers.trainer:Trainer._maybe_log_save_evaluate": "logging",
    "transformers.trainer:skip_first_batches": "resuming",
    "transformers.trainer_callback:CallbackHandler.call_event": "epochs",
    "accelerate.data_loader:send_to_device": "h2d",
}
