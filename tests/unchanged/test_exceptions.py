"""What the user's code raises reaches the user as it was raised, and ends the process as before."""

from typing import Any, Final

import pytest

# The tracer's frames between the script and the user's code, by what the traceback prints: the file,
# which names us, and the function, which names what it stands for. No frame may be added without a word.
MODEL_CALLED: Final = ("traintrace/pytorch/forward.py", "__call__")
FRAMES_OF_OURS: Final = {
    "plain": [MODEL_CALLED],
    "accelerate": [MODEL_CALLED],
    "fabric": [MODEL_CALLED],
    "lightning.pytorch": [MODEL_CALLED],
    "pytorch_lightning": [MODEL_CALLED],
    "huggingface": [
        ("traintrace_huggingface/shim.py", "train"),
        ("traintrace_huggingface/callback.py", "trace"),
        ("traintrace_huggingface/seams.py", "_inner_training_loop"),
        ("traintrace_huggingface/seams.py", "training_step"),
        MODEL_CALLED,
    ],
}


@pytest.mark.parametrize("part", ["type", "arguments", "notes", "hides its context"])
def test_exceptions_are_the_same(failed: Any, part: str) -> None:
    """So are those that led to them: Lightning makes a `SystemExit` of Ctrl-C."""
    untraced, traced = (
        [error[part] for error in run.seen["ending"]] for run in (failed.untraced, failed.traced)
    )
    assert traced == untraced
    if part == "type":
        assert traced[-1] == failed.ending


def test_the_traceback_ends_in_the_users_code(failed: Any) -> None:
    users = failed.traced.seen["ending"][-1]["frames"][-1]
    assert users == ("tests/unchanged/subject/recipe.py", "the_users_own_mistake")


def test_the_traceback_is_the_same_but_for_frames_that_say_what_they_are(failed: Any) -> None:
    untraced, traced = (
        [frame for error in run.seen["ending"] for frame in error["frames"]]
        for run in (failed.untraced, failed.traced)
    )
    assert [frame for frame in traced if not _is_ours(frame)] == untraced
    assert [frame for frame in traced if _is_ours(frame)] == FRAMES_OF_OURS[failed.integration]


def test_exit_codes_are_the_same(ended: Any) -> None:
    assert ended.traced.exit_code == ended.untraced.exit_code
    assert (ended.traced.exit_code == 0) == (ended.ending == "completed")


def _is_ours(frame: tuple[str, str]) -> bool:
    return frame[0].startswith("traintrace")
