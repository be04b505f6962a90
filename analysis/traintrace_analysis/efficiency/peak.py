"""What the device of a rank can do, and in which number format the rank computes."""

from collections.abc import Iterable
from typing import Final

from traintrace.facts import RankFacts
from traintrace.flopfacts import FlopFacts
from traintrace.peaks import DERIVED, peaks_of
from traintrace_analysis.efficiency.model import Anchor
from traintrace_analysis.wording import listed

GIVEN: Final = "given"
_UNCLEAR: Final = (
    "its parameters are float32, and whether it computes in a narrower format (autocast) is not known; "
    'give flops_per_step="count", or peak_tflops'
)


def training_format(rank: RankFacts, plugin: str) -> str | None:
    """Give the number format of a rank's matrix products, as its framework was told; None if that is unclear.

    In a hand-written loop the parameters do not tell: autocast may be on.
    """
    told = (rank.setup.precision or "").lower()
    if told.startswith(("bf16", "bfloat16")):
        return "bf16"
    if told.startswith(("fp16", "float16", "16", "half")):
        return "fp16"
    if told.startswith(("fp64", "float64", "64", "double")):
        return "fp64"
    if not told.startswith(("fp32", "float32", "32")) or plugin == "plain_torch":
        return None
    is_tf32 = rank.setup.device_kind == "cuda" and rank.flops is not None and rank.flops.tf32
    return "tf32" if is_tf32 else "fp32"


def find_anchor(rank: RankFacts, formats: Iterable[str | None]) -> Anchor | str:
    """Give the peaks of the device of `rank` in `formats`, or why they are not known."""
    wanted = list(formats)
    given = (rank.flops or FlopFacts()).peak_tflops
    if given is not None:
        return Anchor(dict.fromkeys(wanted, given), GIVEN)
    setup = rank.setup
    if setup.device_kind == "cpu":
        return "no peak of this processor is known; give peak_tflops"
    if setup.device_name is None:
        return "the device did not tell its name; give peak_tflops"
    device = peaks_of(setup.device_name)
    if device is None:
        return f"no published peak is known for {setup.device_name}; give peak_tflops"
    if None in wanted:
        return _UNCLEAR
    known: dict[str | None, float] = {
        name: device.tflops[name] for name in wanted if name is not None and name in device.tflops
    }
    missing = [str(name) for name in wanted if name not in known]
    if missing:
        return f"no dense peak in {listed(missing)} is published for {setup.device_name}; give peak_tflops"
    return Anchor(known, device.source)


def told_of_peak(source: str) -> str:
    """Say whose figure a peak is, to stand behind it in brackets."""
    if source == GIVEN:
        return "as given"
    return "derived, dense" if source.startswith(DERIVED) else "published, dense"
