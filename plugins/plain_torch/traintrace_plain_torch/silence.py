"""Why a span has no step in it: the one thing to tell a user whose loop could not be seen."""

from traintrace.pytorch.loopstate import LoopState
from traintrace.session import Session
from traintrace_plain_torch.blocks import StepBlock


def why_there_are_no_steps(session: Session, block: StepBlock | None, loop: LoopState) -> str:
    """Give the reason why no step was completed, and what to do about it."""
    if block is not None and block.is_used:
        return (
            "no step was completed: no optimizer step was seen in any step() block; "
            "give trace() the optimizer that is stepped, or none"
        )
    if not session.update_seen and session.foreign_calls():
        return (
            "no step was seen: training runs on another thread than the one that began the trace; "
            "begin it on that thread"
        )
    if loop.has_loader:
        return (
            "no step was completed: batches were requested, but no optimizer step was seen; "
            "leave the optimizer out of trace() and put tracer.step() around each step"
        )
    reason = session.unmeasured.get("input_wait", "no batch was requested")
    return f"no step was seen: {reason}; or put tracer.step() around each step"
