"""Makes `docs/findings.md` from the registry of rules, the table of limits, and what scenarios produced.

`python -m tests.scenarios.findings_page` writes it; with `--check` it only says whether it is stale.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.scenarios.builds import Build, Builds
from tests.scenarios.catalogue import CATALOGUE
from traintrace_analysis.findings import ANSWERS, Finding
from traintrace_analysis.registry import REGISTRY
from traintrace_analysis.rules.rule import Family, Kind
from traintrace_analysis.thresholds import TABLE
from traintrace_analysis.wording import percent, quantity, seconds
from traintrace_reporting.words import gain

PAGE: Final = Path(__file__).parents[2] / "docs" / "findings.md"
_INTRODUCTION: Final = """\
# Findings

What traintrace can find, family by family. This page is made from the rules themselves by `make docs`;
the examples are what the scenarios in `tests/scenarios` really produced.

A finding has evidence, a cost in seconds, and an action. Its confidence is the chance that the claim
holds. The severity *info* is an observation and never a verdict. The verdict is the finding that costs
most, weighed by its confidence, with what is critical first; a finding about a resource may cost no
seconds and leads only where nothing that costs time is as severe.

Each family says one of four things: *finding*, *clean* (examined, and no cause found), *not measured*
(with the reason), *insufficient* (too few steps, or a doubt). A limit is a number with a unit and a
source; `traintrace doctor --thresholds` prints all of them.
"""
_ANSWERS_MEAN: Final[Mapping[str, str]] = {
    "BALANCED": "All that was examined stays under its limits, and no part of the step dominates.",
    "INCOMPLETE_DATA": "A part that every judgement needs was not recorded.",
    "TOO_FEW_STEPS": "After the warm-up too few steps are left for a statement with an error rate.",
    "CANNOT_TELL": "Something is there, but the evidence does not separate its possible causes.",
}


def missing_examples() -> list[str]:
    """Give the kinds that no scenario is the example of."""
    shown = {kind for scenario in CATALOGUE for kind in scenario.shows}
    kinds = [kind.name for family in REGISTRY for rule in family.rules for kind in rule.kinds]
    return [kind for kind in (*kinds, *ANSWERS) if kind not in shown]


def make_page(builds: Mapping[str, Build]) -> str:
    """Give the page as Markdown.

    Raises:
        ValueError: A kind has no scenario as its example, or that scenario did not produce it.
    """
    if missing := missing_examples():
        raise ValueError(f"no scenario of the catalogue shows {', '.join(missing)}")
    shown = {kind: builds[one.name] for one in CATALOGUE for kind in one.shows}
    lines = [_INTRODUCTION, *_contents()]
    for family in REGISTRY:
        lines += [*_gap(lines), f"## {family.name}", "", f"Examined: {_topics(family)}.", ""]
        for rule in family.rules:
            for kind in rule.kinds:
                lines += _section(kind, shown[kind.name])
    lines += [*_gap(lines), "## Answers that are not findings", ""]
    for answer in ANSWERS:
        lines += _answer(answer, shown[answer])
    return "\n".join(lines).rstrip() + "\n"


def _gap(lines: Sequence[str]) -> list[str]:
    return [""] if lines[-1] else []


def _contents() -> Iterator[str]:
    yield "| family | kinds |"
    yield "|---|---|"
    for family in REGISTRY:
        kinds = [kind.name for rule in family.rules for kind in rule.kinds]
        links = ", ".join(f"[{kind}](#{kind.lower()})" for kind in kinds)
        yield f"| [{family.name}](#{family.name}) | {links} |"


def _topics(family: Family) -> str:
    return "; ".join(rule.topic for rule in family.rules)


def _section(kind: Kind, build: Build) -> Iterator[str]:
    yield from (f"### {kind.name}", "", kind.means, "")
    yield from (f"**It fires when** {_begun(kind.fires)}", "")
    if kind.limits:
        yield from ("| limit | value | source |", "|---|---|---|")
        for name in kind.limits:
            entry = TABLE[name]
            yield f"| `{name}` | {quantity(entry.value, entry.unit)} | {_cell(entry.source)} |"
        yield ""
    yield from (f"**It never claims** {_begun(kind.never)}", "")
    yield from (f"**What usually helps:** {kind.action}", "")
    yield from _example(kind, build)


def _example(kind: Kind, build: Build) -> Iterator[str]:
    found = next((f for f in build.analysis.findings if f.kind == kind.name), None)
    if found is None:
        raise ValueError(f"the scenario {build.scenario.name} did not produce {kind.name}")
    yield f"**Example** (`{build.scenario.name}`: {build.scenario.protects}):"
    yield ""
    yield from _quote(found.headline, found.why, found.action, _price(found))


def _answer(answer: str, build: Build) -> Iterator[str]:
    verdict = build.analysis.verdict
    if verdict.kind != answer:
        raise ValueError(f"the scenario {build.scenario.name} was answered with {verdict.kind}")
    yield from (f"### {answer}", "", _ANSWERS_MEAN[answer], "")
    yield from (f"**Example** (`{build.scenario.name}`: {build.scenario.protects}):", "")
    yield from _quote(verdict.headline, verdict.why, verdict.action, "")


def _quote(headline: str, why: str, action: str, price: str) -> Iterator[str]:
    yield f"> **{headline}**"
    for label, text in (("Why", why), ("Do", action), ("Price", price)):
        if text:
            yield ">"
            yield f"> *{label}:* {' '.join(text.split())}"
    yield ""


def _price(found: Finding) -> str:
    parts = [f"{found.severity}, confidence {percent(found.confidence)}"]
    if found.cost_s:
        parts.insert(0, seconds(found.cost_s))
    if found.gain is not None:
        parts.append(gain(asdict(found.gain)))
    return "; ".join(parts) + "."


def _begun(sentence: str) -> str:
    """Let a sentence follow other words: its first letter is small unless the word is an acronym."""
    first = sentence.split(maxsplit=1)[0]
    return sentence if first.isupper() and len(first) > 1 else sentence[:1].lower() + sentence[1:]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or say whether it is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as root:
        page = make_page(Builds(Path(root)).every())
    if wanted.check:
        stale = not PAGE.exists() or PAGE.read_text("utf-8") != page
        print(f"{PAGE} is stale: run `make docs`." if stale else f"{PAGE} is up to date.")
        return int(stale)
    PAGE.write_text(page, "utf-8")
    print(f"{PAGE} is written.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
