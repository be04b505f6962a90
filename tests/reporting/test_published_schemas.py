"""The published shapes of what the commands print and write: each output fits, and no shape changes unnoticed."""

import hashlib
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args

import jsonschema
import pytest
from click.testing import CliRunner

from tests.labs.coresessions import open_session, step
from tests.labs.guarded import make_summary
from tests.labs.kineto import NCCL, KinetoFile
from tests.labs.runs import CPU_STEP
from traintrace_analysis.comparison.model import Verdict
from traintrace_analysis.divergence import State
from traintrace_analysis.traces.comparing import Basis, Change
from traintrace_analysis.traces.kernel_table import Sort
from traintrace_reporting import comparison_content, differing, guard_runs, guarding, noise_file
from traintrace_reporting.cli import main
from traintrace_reporting.comparing import Input
from traintrace_reporting.finish import Summary
from traintrace_reporting.guarding import GuardDecision
from traintrace_reporting.provenance import Effect
from traintrace_reporting.traces import comparison_page

# A released shape may be pinned anew only under another version, which stands in the code and in the schema.
PINS: Final = {
    ("comparison", "0.1"): "5f1be52e6b557fcd",
    ("trend", "0.1"): "f22084d1405d105f",
    ("guard", "0.1"): "41660d05c99bb254",
    ("noise_model", 1): "7c6ef600e0c9d90a",
    ("diff", "0.1"): "150445b77eb95ca0",
    ("trace_comparison", "0.1"): "a15bae4c4b5a43cb",
}
VERSIONS: Final = {
    "comparison": comparison_content.SCHEMA_VERSION,
    "guard": guarding.SCHEMA_VERSION,
    "noise_model": noise_file.VERSION,
    "diff": differing.SCHEMA_VERSION,
    "trace_comparison": comparison_page.SCHEMA_VERSION,
}
NOISE: Final = (
    0.002,
    -0.004,
    0.003,
    -0.001,
    0.004,
    -0.003,
    0.001,
    -0.002,
    0.0,
    0.003,
    -0.003,
    0.001,
)


def schema_of(name: str) -> Any:
    text = files("traintrace_reporting.schema").joinpath(f"{name}.schema.json").read_text("utf-8")
    return json.loads(text)


def check(name: str, content: object) -> None:
    jsonschema.validate(content, schema_of(name), cls=jsonschema.Draft202012Validator)


def printed(*words: object, code: int = 0) -> Any:
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def shape(schema: Any) -> Any:
    """Give what a schema demands, without what it says to people."""
    if isinstance(schema, list):
        return [shape(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    words = ("description", "title", "$schema")
    return {k: shape(v) for k, v in schema.items() if not (k in words and isinstance(v, str))}


@pytest.mark.parametrize(("name", "version"), PINS)
def test_no_published_shape_changes_under_its_version(name: str, version: str | int) -> None:
    text = json.dumps(shape(schema_of(name)), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == PINS[name, version]


@pytest.mark.parametrize("name", sorted({name for name, _ in PINS}))
def test_a_schema_is_one_and_leaves_no_key_open(name: str) -> None:
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("traintrace ")

    def look(place: Any) -> None:
        if isinstance(place, dict):
            if "properties" in place and place.get("type") == "object":
                assert place["additionalProperties"] is False
                assert set(place["required"]) == set(place["properties"])
            for inner in place.values():
                look(inner)
        elif isinstance(place, list):
            for inner in place:
                look(inner)

    look(schema)


@pytest.mark.parametrize("name", VERSIONS)
def test_the_schema_is_of_the_version_that_the_code_writes(name: str) -> None:
    versions: list[Any] = []

    def look(place: Any) -> None:
        if isinstance(place, dict):
            for key, inner in place.items():
                if key == "schema_version" and "const" in inner:
                    versions.append(inner["const"])
                look(inner)

    look(schema_of(name))
    assert set(versions) == {VERSIONS[name]}
    assert (name, VERSIONS[name]) in PINS


def test_the_words_of_the_schemas_are_those_of_the_code() -> None:
    for kind in ("pairs", "history"):
        decision = schema_of("guard")["$defs"][kind]["properties"]["decision"]
        assert set(decision["enum"]) == set(get_args(GuardDecision))
    diff = schema_of("diff")["properties"]
    assert set(diff["time"]["properties"]["verdict"]["enum"]) == set(get_args(Verdict))
    one = diff["logged"]["items"]["properties"]
    for states in (diff["results"]["properties"]["state"], one["state"]):
        assert set(states["enum"]) == set(get_args(State))
    traces = schema_of("trace_comparison")
    change = traces["$defs"]["change"]["properties"]
    assert set(traces["properties"]["basis"]["enum"]) == set(get_args(Basis))
    assert set(change["change"]["enum"]) == set(get_args(Change))
    assert set(change["sort"]["enum"]) == set(get_args(Sort))
    effects = diff["differences"]["items"]["properties"]["may_change"]["items"]
    assert set(effects["enum"]) == set(get_args(Effect))


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes the summary of a run, and gives its path."""

    def write(name: str, noise: float = 0.0, backward: float = 1.0, **changes: Any) -> Path:
        ms = {phase: value * (1.0 + noise) for phase, value in CPU_STEP.items()}  # type: ignore[operator]
        ms["backward"] *= backward
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(make_summary(name, ms=ms, steps=60, **changes)), "utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("slower", "amplify", "of_b", "code"),
    [(1.0, 1.0, {}, 0), (1.5, 1.0, {}, 4), (1.0, 30.0, {}, 3), (1.0, 1.0, {"ranks": 2}, 3)],
)
def test_every_decision_about_pairs_fits(
    store: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    slower: float,
    amplify: float,
    of_b: dict[str, Any],
    code: int,
) -> None:
    count = iter(range(1, 100))

    def train(side: Any, run_dir: str, name: str) -> Input:
        noise = NOISE[5 * next(count) % len(NOISE)] * amplify
        changes = {"backward": slower, **of_b} if side.name == "B" else {}
        path = store(name, noise, **changes)
        return Input(path, Summary(json.loads(path.read_text("utf-8"))))

    monkeypatch.setattr(guard_runs, "train", train)
    words = ("guard", "pairs", "--a", "a.py", "--b", "b.py", "--max-pairs", 4, "--json")
    check("guard", printed(*words, code=code))


def test_every_decision_about_history_and_the_noise_model_fit(
    store: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [store(f"base{number}", noise) for number, noise in enumerate(NOISE[:10])]
    baseline = [word for run in runs for word in ("--baseline", run)]
    history = ("guard", "history", store("same", 0.001))
    check("guard", printed(*history, *baseline, "--json"))
    slow = ("guard", "history", store("slow", 0.0, 1.5))
    check("guard", printed(*slow, *baseline, "--json", code=4))
    check("guard", printed(*history, *baseline[:-2], "--json", code=3))
    check("noise_model", printed("guard", "calibrate", *runs))
    file = tmp_path / "noise.json"
    check("noise_model", printed("guard", "calibrate", *runs, "--output", file, "--json"))
    check("noise_model", json.loads(file.read_text("utf-8")))


def test_every_difference_fits(store: Callable[..., Path], tmp_path: Path) -> None:
    a, b = store("a"), store("b", 0.0, 2.0, cpu="Xeon")
    content = printed("diff", a, b, "--json")
    assert content["differences"]
    check("diff", content)
    folders = []
    for name, values in (("one", (1.0, 2.0, 4.0)), ("other", (1.0, float("nan"), 4.5))):
        session = open_session(tmp_path / "runs", name=name)
        for value in values:
            session.log("loss", value)
            step(session)
        session.finish("completed")
        folders.append(session.folder)
    content = printed("diff", *folders, "--json")
    assert content["logged"][0]["state"] == "parted"
    check("diff", content)


def test_every_comparison_of_traces_fits(tmp_path: Path) -> None:
    device, host, bare = KinetoFile(0), KinetoFile(0), KinetoFile(0)
    device.steps(0, 1_000, 2_000)
    device.event("user_annotation", "forward", 0, 500)
    device.kernel(10, 700, launched=10)
    device.kernel(650, 900, NCCL, stream=20, launched=500)
    device.kernel(1_300, 1_400, "Memset (Device)", cat="gpu_memset", launched=1_000)
    host.event("cpu_op", "aten::mm", 0, 40)
    host.event("user_annotation", "gloo:all_reduce", 10, 60)
    bare.kernel(0, 0)  # a trace of no length: nothing has a percentage
    files = [
        one.write(tmp_path / f"{name}.json")
        for name, one in (("device", device), ("host", host), ("bare", bare))
    ]
    sorts = set()
    for a in files:
        for b in files:
            content = printed("compare", "--trace-a", a, "--trace-b", b, "--json")
            check("trace_comparison", content)
            sorts |= {one["sort"] for one in (*content["kernels"], *content["ranges"])}
    assert sorts == set(get_args(Sort))
