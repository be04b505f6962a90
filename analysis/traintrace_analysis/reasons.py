"""Say why a metric is missing, in one sentence, and so what may not be built on it."""

from collections.abc import Mapping, Sequence

from traintrace.accounts import GROUPS, STEP_ACCOUNT_NAMES
from traintrace.facts import RankFacts
from traintrace_analysis.step_window import Floats

DID_NOT_OCCUR = "it did not occur"
"""The reason that is a measurement: such an account took nothing."""

_DEFAULT = {
    "h2d": "not_observed: no transfers were seen",
    "gradient_sync": "its start was not marked; the backward account may include waiting",
    "forward": "no call of the traced model was seen",
    "backward": "no backward pass was seen",
    "optimizer": "no optimizer step was seen",
    "input_wait": "no request for a training batch was seen",
}


def missing_reasons(
    ranks: Sequence[RankFacts], host: Mapping[str, Floats], accelerator: bool, alone: bool
) -> dict[str, str]:
    """Give the reason by metric for every account and derived metric that cannot be had.

    `alone` says that the job has a single rank. A derived metric needs its parts. The residual needs
    every phase, since the time of a phase that was not seen lies in it; a transfer that never happened
    on a CPU run is no such phase.
    """
    if not ranks:
        names = (*STEP_ACCOUNT_NAMES, "step_time", "traced_step_time", "compute", "residual")
        return dict.fromkeys(names, "no rank completed a step")
    reasons = {
        name: _account_reason(ranks, name) for name in STEP_ACCOUNT_NAMES if name not in host
    }
    if alone and "gradient_sync" in reasons:
        reasons["gradient_sync"] = "one rank has no other to wait for"
    if "input_wait" in reasons:
        reasons["traced_step_time"] = f"needs input_wait: {reasons['input_wait']}"
    for name in GROUPS["compute"]:
        if name in reasons:
            reasons["compute"] = f"needs {name}: {reasons[name]}"
            break
    for name in ("input_wait", *GROUPS["compute"]):
        if name in reasons:
            reasons["residual"] = f"would hold the time of {name}: {reasons[name]}"
            break
    else:
        if "other" in reasons:
            reasons["residual"] = f"needs other: {reasons['other']}"
        elif "h2d" in reasons and accelerator and _declared(ranks, "h2d"):
            reasons["residual"] = f"would hold the time of h2d: {reasons['h2d']}"
    return reasons


def _declared(ranks: Sequence[RankFacts], name: str) -> str | None:
    return next((rank.unmeasured[name] for rank in ranks if name in rank.unmeasured), None)


def _account_reason(ranks: Sequence[RankFacts], name: str) -> str:
    declared = _declared(ranks, name)
    if declared:
        return declared
    if name != "input_wait" and all(rank.level == "step" for rank in ranks):
        return "the level 'step' records the input wait and the step only"
    return _DEFAULT.get(name, DID_NOT_OCCUR)
