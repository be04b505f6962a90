"""What tracing takes hold of in Lightning, as `module:attribute`: `traintrace doctor` looks whether it is there.

Imports nothing; names are of `lightning.pytorch`, and the same in `pytorch_lightning`. An attribute that
a release lacks costs the split that it stands for, and no more.
"""

from typing import Final

DISTRIBUTION: Final = "lightning"
SEAMS: Final = {
    "lightning.pytorch:Trainer.__init__": "attaching",
    "lightning.fabric.strategies.launchers.subprocess_script:_basic_subprocess_cmd": "attaching",
    "lightning.pytorch:Trainer.save_checkpoint": "checkpoint",
    "lightning.pytorch.profilers:Profiler.start": "steps",
    "lightning.pytorch.profilers:Profiler.stop": "steps",
    "lightning.pytorch.loops.fit_loop:_FitLoop.setup_data": "epoch_boundary",
    "lightning.pytorch.loops:_TrainingEpochLoop.on_run_start": "epoch_boundary",
    "lightning.pytorch.loops:_TrainingEpochLoop._broadcast_sigterm_tensor": "communication",
    "lightning.pytorch.loops:_EvaluationLoop.run": "evaluation",
    "lightning.pytorch.loops:_EvaluationLoop.setup_data": "evaluation",
    "lightning.pytorch.trainer.connectors.logger_connector:_LoggerConnector.log_metrics": "logging",
    "lightning.pytorch.trainer.connectors.logger_connector.result:_Metadata.forked_name": "logged values",
    "lightning.pytorch.plugins.precision:Precision.clip_gradients": "clip",
    "lightning.pytorch.plugins.precision:Precision._wrap_closure": "other",
    "lightning.pytorch.strategies:Strategy.optimizer_step": "optimizer",
}
