"""Peaks: the table's are plausible and known by whole names, and one that cannot be is an error in plain words."""

import re

import pytest

from tests.labs.budgets import analysis_of, budget_of, counted_step, on_gpu, with_flops
from tests.labs.runs import make_rank
from traintrace.errors import UsageError
from traintrace.peaks import DERIVED, known_devices, peaks_of
from traintrace_analysis.efficiency import told_of_peak


def test_every_peak_has_a_source_and_is_plausible() -> None:
    assert len(known_devices()) >= 60
    for name in known_devices():
        peaks = peaks_of(name)
        assert peaks is not None
        assert "https://" in peaks.source
        assert peaks.source.startswith(("https://", DERIVED))
        tflops = peaks.tflops
        assert tflops["fp32"] > 1.0
        if "fp16" not in tflops:
            assert set(tflops) == {"fp32"}
            assert name.startswith("Apple ")
            continue
        assert tflops["fp16"] >= 1.99 * tflops["fp32"]
        assert tflops.get("bf16", tflops["fp16"]) == tflops["fp16"]
        assert tflops["fp32"] <= tflops.get("tf32", tflops["fp32"]) <= 1.02 * tflops["fp16"] / 2
        if "fp8" in tflops:
            assert tflops["fp8"] == pytest.approx(2 * tflops["fp16"], rel=0.03)


@pytest.mark.parametrize(
    ("name", "wanted", "is_derived"),
    [
        ("Apple M1 (8 GPU cores)", 2.6, False),
        ("Apple M1 (7 GPU cores)", 2.275, True),
        ("Apple M1 Pro (16 GPU cores)", 5.2, False),
        ("Apple M1 Ultra (64 GPU cores)", 21.0, False),
        ("Apple M2 Max (38 GPU cores)", 13.6, True),
    ],
)
def test_an_apple_chip_is_known_by_its_cores(name: str, wanted: float, is_derived: bool) -> None:
    peaks = peaks_of(name)
    assert peaks is not None
    assert peaks.tflops == {"fp32": pytest.approx(wanted, rel=1e-3)}
    assert peaks.source.startswith(DERIVED) == is_derived
    # Per core, what is derived is what Apple publishes of a chip of that name.
    assert 0.32 < wanted / int(name.split("(")[1].split()[0]) < 0.37


@pytest.mark.parametrize("name", ["Apple M1", "Apple M1 Pro", "Apple M1 (9 GPU cores)", "Apple M9"])
def test_an_apple_chip_without_its_cores_is_not_known(name: str) -> None:
    assert peaks_of(name) is None


def test_a_format_that_nobody_publishes_gives_no_mfu_and_the_reason() -> None:
    half = counted_step(3, 0, flops={"fp16": 10**12}, backward_flops=0)
    rank = on_gpu(make_rank(50), "Apple M1 Pro (14 GPU cores)")
    single = budget_of(with_flops(rank, counted_step(3, 10**9), peak_tflops=None))
    assert single.anchor is not None
    assert told_of_peak(single.anchor.source) == "derived, dense"
    none = budget_of(with_flops(rank, half, peak_tflops=None))
    assert none.mfu is None
    assert "no dense peak in fp16 is published for Apple M1 Pro (14 GPU cores)" in none.reason


def test_a_peak_that_no_device_has_is_an_error_and_no_finding() -> None:
    """312e12 in place of 312: the operations a second, and not the 1e12 of them."""
    rank = with_flops(make_rank(100), flops_per_step=1e9, peak_tflops=312e12)
    analysis = analysis_of(rank)
    assert analysis.efficiency is not None
    assert "peak of 3.12e+14 TFLOP/s is more than any device has" in analysis.efficiency.problem
    assert analysis.efficiency.problem in analysis.warnings
    assert not [one for one in analysis.findings if one.family == "efficiency"]
    assert analysis.families["efficiency"].state == "not_measured"


@pytest.mark.parametrize("peak", [0.0, -1.0, float("nan"), float("inf"), 1e31])
def test_a_peak_that_is_none_is_refused(peak: float) -> None:
    with pytest.raises(UsageError, match="peak_tflops"):
        analysis_of(make_rank(20), peak_tflops=peak)


@pytest.mark.parametrize("peak", [1e-15, 1e-9, 1.0, 1e6, 1e30])
@pytest.mark.parametrize("flops", [1e-15, 1.0, 1e30])
def test_whatever_was_recorded_says_no_number_of_many_digits(peak: float, flops: float) -> None:
    analysis = analysis_of(with_flops(make_rank(100), flops_per_step=flops, peak_tflops=peak))
    told = [*analysis.warnings, *(f"{one.headline} {one.why}" for one in analysis.findings)]
    for sentence in told:
        if "TFLOP/s" in sentence or "MFU" in sentence:
            assert not re.search(r"\d{6}|\d,\d{3},\d{3}", sentence)
