"""Trace what Ray Train's workers do: Ray starts them, so that no launcher of ours can.

from traintrace_plain_torch.ray import trace_worker

TorchTrainer(trace_worker(train_loop_per_worker), scaling_config=ScalingConfig(num_workers=2)).fit()
"""

import functools
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from traintrace.options import TraceOptions
from traintrace.publishing.location import is_url
from traintrace_plain_torch.functions import Traced


def trace_worker(train_loop_per_worker: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Give a function for `TorchTrainer` that does the same, traced; all workers write one run.

    Each worker is traced as a script under `traintrace run` is: a loop of its own, or a Trainer of
    Lightning or transformers in it. Workers on other machines need a `run_dir` that all can reach.

    Args:
        train_loop_per_worker: What each worker runs, with its configuration or without.
        **options: See `traintrace.TraceOptions`.

    Raises:
        UsageError: An option has an impossible value.
    """
    chosen = TraceOptions(**options)
    if not is_url(str(chosen.run_dir)):
        # Workers have a working directory of their own.
        chosen = replace(chosen, run_dir=os.path.abspath(chosen.run_dir))
    traced = Traced.here(train_loop_per_worker, chosen)

    @functools.wraps(train_loop_per_worker)  # Ray looks at its parameters
    def train(*args: Any, **kwargs: Any) -> Any:
        return traced(*args, **kwargs)

    return train
