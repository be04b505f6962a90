"""Settings: where they are found, what they may say, and what is refused with the key, the file and the line."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from traintrace_reporting.cli import main
from traintrace_reporting.settings import (
    FILE_NAME,
    Settings,
    load_settings,
    with_flags,
)
from traintrace_reporting.settings_keys import KEYS, SettingsError, settings_table

ROOT = Path(__file__).parents[2]
# The file that people bring along from another tool.
KNOWN_FILE = """\
mode: summary
history_enabled: true
history_retention: 5000
interval: 2

guard:
  schema_version: 1
  workload:
    name: resnet50-imagenet-training
    parameters:
      model: resnet50
      precision: bf16
      per_rank_batch_size: 32
      learning_rate: 0.1
      shuffled: yes
  measurement:
    start_step: 10
    completed_steps: 50
"""


def write(folder: Path, text: str) -> Path:
    path = folder / FILE_NAME
    path.write_text(text, "utf-8")
    return path


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    assert load_settings(tmp_path) == Settings()


def test_a_file_with_all_known_keys_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path, KNOWN_FILE)
    settings = load_settings(tmp_path)
    assert settings.source == path
    assert (settings.mode, settings.history_enabled) == ("summary", True)
    options = settings.options()
    assert (options.retention_steps, options.interval_s) == (5000, 2)
    assert settings.guard is not None
    assert settings.guard["workload"]["parameters"]["shuffled"] is True
    assert settings.guard["measurement"] == {"start_step": 10, "completed_steps": 50}


def test_the_nearest_file_above_the_working_directory_is_the_only_one_read(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "src" / "deep"
    inner.mkdir(parents=True)
    write(tmp_path, "level: step\nmax_steps: 7\n")
    near = write(tmp_path / "project", "level: host\n")
    settings = load_settings(inner)
    assert (settings.source, settings.level, settings.max_steps) == (near, "host", None)


def test_a_relative_run_dir_starts_at_the_file_and_a_url_stays_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    write(tmp_path, "run_dir: out/runs\n")
    assert load_settings(tmp_path / "src").run_dir == str(tmp_path / "out" / "runs")
    write(tmp_path, "run_dir: s3://bucket/runs\n")
    assert load_settings(tmp_path).run_dir == "s3://bucket/runs"


def test_flags_go_before_the_file_and_the_file_before_defaults(tmp_path: Path) -> None:
    write(tmp_path, "level: step\nmax_steps: 7\n")
    settings = with_flags(load_settings(tmp_path), level="host", max_steps=None, warmup_steps=0)
    assert (settings.level, settings.max_steps, settings.warmup_steps) == ("host", 7, 0)
    assert settings.run_dir == "runs"


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("level: host\nlevle: host\n", 2, "levle is no key"),
        ("mode: fast\n", 1, "mode: 'fast' (a text): use one of summary, watch"),
        ("history_enabled: 1\n", 1, "history_enabled: 1 (a whole number): use true or false"),
        (
            "\n\nhistory_retention: -3\n",
            3,
            "history_retention: -3 (a whole number): use a number of at least 1",
        ),
        (
            "history_retention: yes\n",
            1,
            "history_retention: True (a truth value): use a whole number",
        ),
        ("interval: 1e-1\n", 1, "interval: '1e-1' (a text): use a number of seconds"),
        ("interval: 0.0001\n", 1, "interval: 0.0001 (a decimal number): use seconds from"),
        ("interval: .nan\n", 1, "interval: nan (a decimal number): use seconds from"),
        ("guard: on\n", 1, "guard: True (a truth value): use a mapping"),
        (
            "guard:\n  born: 2026-01-01\n",
            2,
            "guard.born: datetime.date(2026, 1, 1) (date): no such field",
        ),
        ("guard:\n  1: one\n", 1, "the key 1 (a whole number) in it is no text: quote it"),
        ("guard: {}\n", 1, "guard: {} (a mapping): schema_version is missing"),
        ("run_dir: ''\n", 1, "run_dir: '' (a text): use a text"),
        ("level:\n", 1, "level: None (null): use one of"),
        ("max_steps: 2.5\n", 1, "max_steps: 2.5 (a decimal number): use a whole number"),
        ("enabled: nein\n", 1, "enabled: 'nein' (a text): use true or false"),
        ("level: host\nmode: summary\nlevel: step\n", 3, "the key level stands twice"),
        ("guard:\n  a: 1\n  a: 2\n", 3, "the key a stands twice"),
        ("guard: &x {a: 1}\nmode: *x\n", 2, "the alias *x is not read"),
        ("- mode\n- summary\n", 1, "not a mapping"),
        ("summary\n", 1, "not a mapping"),
        ("mode: [summary\n", 2, "expected"),
        ("guard: !!python/object/apply:os.getcwd []\n", 1, "could not determine a constructor"),
        ("? [mode]\n: summary\n", 1, "unhashable key"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_file_line_and_key(
    tmp_path: Path, text: str, line: int, told: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        load_settings(tmp_path)
    assert str(error.value).startswith(f"{path}, line {line}: ")
    assert told in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("content", [b"\xff\xfe\x00mode", b"mode: \x00", b"a: " + b"[" * 2_000])
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=FILE_NAME) as error:
        load_settings(tmp_path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("text", ["", "# nothing\n", "max_steps: null\ninterval:\nguard: ~\n"])
def test_nothing_said_is_the_default(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert load_settings(tmp_path) == Settings(source=path)


def test_every_field_has_a_key_with_a_check_and_a_default_that_passes_it() -> None:
    defaults: dict[str, Any] = {
        name: getattr(Settings(), name)
        for name in Settings.__dataclass_fields__
        if name != "source"
    }
    assert {key.name for key in KEYS} == set(defaults)
    for key in KEYS:
        assert key.check(defaults[key.name]) == "", key.name


def test_the_documentation_has_the_table_of_keys() -> None:
    assert settings_table() in (ROOT / "docs" / "settings.md").read_text("utf-8")


def test_help_names_every_key() -> None:
    words = CliRunner().invoke(main, ["run", "--help"]).stdout.split()
    for key in KEYS:
        assert any(word.strip(",.") == key.name for word in words), key.name


def test_a_bad_file_ends_run_and_watch_with_code_1_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "levle: host\n")
    monkeypatch.chdir(tmp_path)
    for command in ("run", "watch"):
        result = CliRunner().invoke(main, [command, "train.py"])
        assert result.exit_code == 1
        assert f"{path}, line 1: levle" in result.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == [FILE_NAME]


def test_settings_of_watch_are_refused_by_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "mode: watch\n")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["run", "train.py"])
    assert result.exit_code == 1
    assert "mode: watch" in result.stderr


def test_waiting_and_publishing_are_set_by_file_and_flag_and_null_is_the_default(
    tmp_path: Path,
) -> None:
    write(tmp_path, "publish_interval: 5\nwait_for_ranks: 0.5\n")
    settings = load_settings(tmp_path)
    options = with_flags(settings, wait_for_ranks=2.5, publish_interval=None).options()
    assert (options.publish_interval_s, options.wait_for_ranks_s) == (5, 2.5)
    write(tmp_path, "publish_interval:\nwait_for_ranks: null\n")
    assert load_settings(tmp_path).options() == with_flags(Settings(), run_dir="runs").options()
    write(tmp_path, "wait_for_ranks: -1\n")
    with pytest.raises(SettingsError, match=r"line 1: wait_for_ranks: -1 .*use seconds from 0 to"):
        load_settings(tmp_path)
    bad = CliRunner().invoke(main, ["run", "--publish-interval", "0", "job.py"])
    assert (bad.exit_code, "--publish-interval 0.0: use seconds" in bad.output) == (2, True)
