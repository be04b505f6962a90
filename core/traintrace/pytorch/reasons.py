"""What a user is told of batches and steps that cannot be seen, and what to do about it."""

from typing import Final

NO_REQUEST: Final = (
    "no training batch was requested from a torch DataLoader or through tracer.batches(loader); "
    "put tracer.batches() around what the loop iterates"
)
READS_AHEAD: Final = (
    "the loader around torch's fetches one batch ahead; request batches through "
    "tracer.batches(loader)"
)
NOT_TRAINING: Final = (
    "batches were requested only with gradients off, or nothing was trained on them; "
    "request training batches through tracer.batches(loader)"
)
INSIDE_A_STEP: Final = (
    "an evaluation began inside a step, after its first batch was requested and before its update; "
    "its time is in the phases of that step. Put `with tracer.evaluating():` around it"
)
NO_BATCH: Final = (
    "an optimizer step came before a batch was requested for it: the loop's batches are fetched ahead, "
    "repeated from memory, or come from something else as well. Such steps may be merged, and miss "
    "their phases; put tracer.batches() around what the loop itself iterates, or tracer.step() around "
    "each step"
)
