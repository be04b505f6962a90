"""What interrupts a wrapper at its worst moment, and which rank the run says it is."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.labs.huggingface import Recipe
from traintrace import open_run
from traintrace.accounts import BATCH_PREP, CLIP, H2D, LOGGING
from traintrace.runs.identity import Identity
from traintrace_huggingface import opening, wrappers


def test_an_interrupt_between_a_mark_and_the_call_leaves_no_account_open() -> None:
    written: list[int] = []

    def marker(code: int) -> Any:
        def mark() -> None:
            written.append(code)
            if code >= 0:
                raise KeyboardInterrupt

        return mark

    journal: Any = SimpleNamespace(owner=threading.get_ident(), marker=marker)
    boundaries: Any = SimpleNamespace(
        session=SimpleNamespace(journal=journal),
        collecting=True,
        moves=True,
        skip=0,
        logging=False,
        count_tokens=lambda batch: None,
        end_logging=lambda: written.append(~LOGGING),
    )
    trainer = SimpleNamespace(control=SimpleNamespace(should_log=True))
    for wrapper, account in (
        (wrappers.charged(journal, CLIP), CLIP),
        (wrappers.collecting(boundaries, BATCH_PREP), BATCH_PREP),
        (wrappers.send(boundaries), H2D),
        (wrappers.log_save_evaluate(boundaries, trainer), LOGGING),
    ):
        written.clear()
        with pytest.raises(KeyboardInterrupt):
            wrapper(lambda: None)()
        assert written == [account, ~account]


def test_the_process_group_says_which_rank_this_is(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "identity_of_process", lambda: Identity(node=1, nodes=2))
    callback = recipe.callback()
    recipe.trainer(callback, batches=1).train()
    folder = callback.run_folder
    assert folder is not None
    assert [rank.node for rank in open_run(folder).facts([]).ranks] == [1]
