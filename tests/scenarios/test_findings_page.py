"""`docs/findings.md` says what the rules say, with an example that really happened."""

import pytest

from tests.scenarios import findings_page
from tests.scenarios.builds import Builds
from traintrace_analysis.registry import REGISTRY
from traintrace_analysis.rules.rule import Kind
from traintrace_analysis.thresholds import TABLE

KINDS = [kind for family in REGISTRY for rule in family.rules for kind in rule.kinds]


def test_every_kind_and_every_answer_has_a_scenario_as_its_example() -> None:
    assert findings_page.missing_examples() == []


def test_the_committed_page_is_up_to_date(builds: Builds) -> None:
    page = findings_page.make_page(builds.every())
    assert findings_page.PAGE.read_text("utf-8") == page, "stale: run `make docs`"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_explains_itself_in_sentences(kind: Kind) -> None:
    for text in (kind.means, kind.fires, kind.never, kind.action):
        first = text.split()[0]  # a word, or code
        assert first[0].isupper() or not first.isalpha(), text
        assert text.rstrip().endswith((".", ")")), text
    assert set(kind.limits) <= set(TABLE), "a limit that is in no table"
    assert kind.limits, "nothing fires without a limit"
