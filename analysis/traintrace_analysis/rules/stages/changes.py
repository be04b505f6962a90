"""What to change in a pipeline, with what the replay says that it wins."""

from traintrace_analysis.stages import Contention, StageAnalysis, WhatIf
from traintrace_analysis.stages.whatif import FASTER_BY
from traintrace_analysis.wording import count, listed, percent, seconds


def speeding_up(stages: StageAnalysis, name: str) -> str:
    """Say what can be done about one stage, as a sentence."""
    worker, faster = stages.what_if("worker", name), stages.what_if("faster", name)
    options = []
    if worker is not None:
        options.append(f"give {name} one more worker ({won(worker)})")
    if faster is not None:
        options.append(f"make it {percent(FASTER_BY)} faster ({won(faster)})")
    if not options:
        return f"Give {name} more workers, or make its work cheaper."
    text = " or ".join(options)
    return f"{text[:1].upper()}{text[1:]}."


def won(change: WhatIf) -> str:
    """Write what a change wins: "replay: +12 % throughput"."""
    return f"replay: {signed(change.speedup)} throughput"


def signed(speedup: float) -> str:
    """Write a gain of throughput with its sign: "+12 %", "+0 %"."""
    gain = speedup - 1.0
    if abs(gain) < 0.0005:
        return "+0 %"
    return f"{'+' if gain > 0.0 else '-'}{percent(abs(gain))}"


def caveat(contention: Contention | None) -> str:
    """Say what the replay does not know about workers that hold each other up; "" if they do not."""
    if contention is None:
        return ""
    busy, used, there = (
        f"{round(value, 1):g}"
        for value in (contention.busy_workers, contention.cores, contention.allowed or 0.0)
    )
    if contention.kind == "cores":
        return (
            f" {busy} workers were busy at a time on {there} cores, of which {used} were "
            "in use: they hold each other up there, so gains are upper bounds, and one more worker may win nothing."
        )
    if contention.kind == "node":
        return (
            f" All cores of the node were in use ({used} of {there}), by other processes too: "
            "what the replay says holds for this load, and gains are upper bounds."
        )
    return (
        f" {busy} threads were busy at a time and the process used {used} cores: if they run Python code they take "
        "turns at the interpreter, so gains are upper bounds; processes would not take turns."
    )


def trust(stages: StageAnalysis) -> str:
    """Say how well the replay fits, or why there is none."""
    if stages.withheld:
        return f" What a change wins is {stages.withheld}."
    if stages.replayed is None:
        return ""
    off = percent(max(0.001, abs(stages.replayed.deviation)))
    services = count(stages.replayed.services, "service")
    warm = (
        f" (the first {seconds(stages.warmup_s)}, a warm-up, left out)" if stages.warmup_s else ""
    )
    return f" The replay of {services} comes within {off} of the measured throughput{warm}."


def doubts(stages: StageAnalysis) -> str:
    """Say which queues' books do not balance; "" if all do."""
    wrong = [one.name for one in stages.queues if one.doubt]
    return f" The books of {listed(wrong)} do not balance; see its notes." if wrong else ""
