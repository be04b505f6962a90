"""The arithmetic of the corpus' score, on results made by hand."""

from benchmarks.corpus.cases import Case
from benchmarks.corpus.scoring import Judged, Score, add_up, judge
from benchmarks.corpus.truth import Label, Truth
from traintrace_analysis.findings import Finding, Severity

CLEAN = Case("clean", "clean", 1)
INPUT = Case("step_time", "INPUT_BOUND", 1)
SLOW = Case("ranks", "INPUT_STRAGGLER", 1)


def finding(
    kind: str,
    family: str = "step_time",
    severity: Severity = "warning",
    ranks: tuple[int, ...] = (0,),
) -> Finding:
    return Finding(
        id=kind, kind=kind, family=family, severity=severity, confidence=0.9, ranks=ranks,
        evidence={}, cost_s=1.0, cost_basis="run", gain=None, headline="", why="", action="",
    )  # fmt: skip


def truth(*faults: Label, also: tuple[str, ...] = (), unclear: tuple[str, ...] = ()) -> Truth:
    return Truth(faults, frozenset(also), frozenset(unclear))


def score_of(*judged: Judged) -> Score:
    return add_up(judged)


def test_a_fault_that_is_named_is_found_and_right() -> None:
    one = judge(INPUT, truth(Label("step_time", "INPUT_BOUND")), [finding("INPUT_BOUND")])
    assert (len(one.found), len(one.missed), len(one.right), len(one.wrong)) == (1, 0, 1, 0)


def test_an_observation_finds_nothing_and_is_not_wrong() -> None:
    label = Label("step_time", "INPUT_BOUND")
    one = judge(INPUT, truth(label), [finding("INPUT_BOUND", severity="info")])
    assert (one.missed, one.right, one.wrong) == ((label,), (), ())


def test_the_right_kind_on_the_wrong_rank_is_a_miss_and_wrong() -> None:
    label = Label("ranks", "INPUT_STRAGGLER", ranks=(1,))
    innocent = finding("INPUT_STRAGGLER", "ranks", ranks=(0,))
    both = finding("INPUT_STRAGGLER", "ranks", ranks=(0, 1))
    for named in (innocent, both):
        one = judge(SLOW, truth(label), [named])
        assert (one.found, one.wrong) == ((), (named,))


def test_two_findings_may_name_one_labelled_rank_each() -> None:
    label = Label("ranks", "INPUT_STRAGGLER", ranks=(1, 2))
    first, second = (finding("INPUT_STRAGGLER", "ranks", ranks=(rank,)) for rank in (1, 2))
    assert judge(SLOW, truth(label), [first, second]).found == (label,)
    assert judge(SLOW, truth(label), [first]).missed == (label,)


def test_an_equal_answer_counts_only_where_the_label_allows_it() -> None:
    named = finding("STRAGGLER", "ranks", ranks=(1,))
    strict = Label("ranks", "INPUT_STRAGGLER", (1,))
    lenient = Label("ranks", "INPUT_STRAGGLER", (1,), same=frozenset(("STRAGGLER",)))
    assert judge(SLOW, truth(strict), [named]).missed == (strict,)
    assert judge(SLOW, truth(lenient), [named]).found == (lenient,)


def test_what_is_true_as_well_is_right_and_what_is_near_its_limit_does_not_count() -> None:
    named = [finding("INPUT_BOUND"), finding("JITTER"), finding("DRIFT"), finding("H2D_BOUND")]
    label = Label("step_time", "INPUT_BOUND")
    one = judge(INPUT, truth(label, also=("JITTER",), unclear=("DRIFT",)), named)
    assert [f.kind for f in one.right] == ["INPUT_BOUND", "JITTER"]
    assert [f.kind for f in one.passed_over] == ["DRIFT"]
    assert [f.kind for f in one.wrong] == ["H2D_BOUND"]


def test_precision_counts_wrong_findings_of_a_family_in_all_runs() -> None:
    label = Label("step_time", "INPUT_BOUND")
    score = score_of(
        judge(INPUT, truth(label), [finding("INPUT_BOUND")]),
        judge(INPUT, truth(label), []),
        judge(CLEAN, truth(), [finding("H2D_BOUND")]),
        judge(CLEAN, truth(), []),
        judge(CLEAN, truth(), [finding("COMPUTE_BOUND", severity="info")]),
    )
    figures = score.figures()
    family = figures["families"]["step_time"]
    assert (family["recall"], family["precision"], family["runs"]) == (0.5, 0.5, 2)
    assert family["kinds"]["INPUT_BOUND"]["recall"] == 0.5
    assert family["kinds"]["H2D_BOUND"]["precision"] == 0.0
    assert figures["clean_ok"] == 2 / 3
    assert (figures["precision"], figures["recall"]) == (0.5, 0.5)
    assert score.wrong == {("clean", "H2D_BOUND"): 1}
    assert score.missed == ["step_time-input_bound-1"]


def test_a_finding_near_its_limit_spoils_a_healthy_run_all_the_same() -> None:
    score = score_of(judge(CLEAN, truth(unclear=("DRIFT",)), [finding("DRIFT")]))
    assert score.figures()["clean_ok"] == 0.0


def test_without_faults_and_findings_there_is_no_ratio() -> None:
    figures = score_of(judge(CLEAN, truth(), [])).figures()
    assert figures["precision"] is None
    assert figures["recall"] is None
    assert figures["clean_ok"] == 1.0
