"""What rules and verdict both need to know about the shares of a step."""

from collections.abc import Callable

from traintrace_analysis.context import Context, weigh_cause
from traintrace_analysis.ranks import is_sharded


def quiet_confidence(context: Context) -> float:
    """Give the chance that no measured cause reaches its limit: the least over input, h2d, residual."""
    window = context.window
    causes = {"h2d": window.steady("h2d"), "residual": window.steady("residual")}
    if context.wait is not None:
        causes["input"] = context.wait.steady[:, window.warmup_steps :] * exposed_share(context)
    least = 1.0
    for name, cause in causes.items():
        weight = None if cause is None else weigh_cause(window, cause, name)
        if weight is not None:
            least = min(least, 1.0 - weight.confidence)
    return min(least, 0.95) * context.sync_trust


def exposed_share(context: Context) -> float:
    """Give the part of the wait, 0 to 1, that the device cannot have been busy during.

    Means over the steady steps: step time less device work is the most that the device stood idle.
    1 on the host clock, where nothing better is known.
    """
    window = context.window
    compute = context.metrics["compute"].device_mean_ms
    step = context.metrics["step_time"].mean_ms
    wait = context.metrics["input_wait"].mean_ms
    if window.clock == "host" or compute is None or step is None or not wait:
        return 1.0
    busy = compute + (context.metrics["h2d"].device_mean_ms or 0.0)
    return min(1.0, max(0.0, step - busy) / wait)


def shares_a_model(context: Context) -> bool:
    """Tell whether forward and backward may hold communication: a sharded model on several ranks."""
    return len(context.window.expected_ranks) > 1 and is_sharded(context.window)


def backward_may_wait(context: Context) -> bool:
    """Tell whether the backward account may hold waiting for other ranks, which was not marked."""
    window = context.window
    several = len(window.expected_ranks) > 1
    return several and (is_sharded(window) or "gradient_sync" not in window.host)


def sync_caution(context: Context) -> str:
    """Say that host times of an accelerator may be a moved wait; nothing elsewhere."""
    if not context.blind:
        return ""
    return " Only the host clock was available: this time may be waiting for the device's own work."


def needs(*metrics: str) -> Callable[[Context], str]:
    """Give a test for a rule's `missing`: the reason of the first of `metrics` that no rank measured."""

    def missing(context: Context) -> str:
        for name in metrics:
            if not context.metrics[name].ranks_measured:
                why = context.window.reasons.get(name, "measured on fewer than 95 % of the steps")
                return f"{name} ({why})"
        return ""

    return missing
