"""`trace_step`: tracing without a context around the loop.

for batch in loader:
    with trace_step(model):
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""

import threading
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from traintrace.options import TraceOptions
from traintrace.registry import REGISTRY
from traintrace_plain_torch.loop import Tracer
from traintrace_plain_torch.loopsession import LoopSession, LoopTracer


class StepTracing(threading.local):
    """Marks steps; the first one of a thread begins a run, which ends with the interpreter.

    It keeps the thread's tracer, since a run that stopped recording is in no registry.
    """

    def __init__(self) -> None:
        self._tracer: Tracer | None = None

    def __call__(
        self, model: nn.Module, optimizer: Any = None, **options: Any
    ) -> AbstractContextManager[None]:
        """Mark one step, or one micro-batch of it: it ends at the block's exit if there was an update.

        Inside `with trace(...)` it is that tracer's `step()`. Another model of the same thread belongs
        to the same run, and its calls are `forward` too.

        Args:
            model: The model whose calls are `forward`; the first one is described in the report.
            optimizer: One that does not derive from torch's, to see its steps; else not needed.
            options: As for `trace`; those of the first call of a run count.

        Raises:
            UsageError: `model` is no model, or an option has an impossible value.
        """
        session = REGISTRY.current()
        own = self._tracer
        tracer: LoopTracer | None = own
        if isinstance(session, LoopSession):
            tracer = session.tracer
        if tracer is None or (own is not None and tracer is own and own.is_closed):
            tracer = self._tracer = self._begin(model, optimizer, options)
        tracer.follow(model)
        return tracer.step()

    def _begin(self, model: nn.Module, optimizer: Any, options: dict[str, Any]) -> Tracer:
        tracer = Tracer(model, optimizer, TraceOptions(**options), awaits_update=True)
        return tracer.start()

    def finish(self) -> Tracer | None:
        """End the run of this thread and make its report; give its tracer, None if there is none."""
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            tracer.close()
        return tracer

    def __reduce__(self) -> str:
        """Pickle by name: a training function sent to another process traces there."""
        return "trace_step"


trace_step = StepTracing()
