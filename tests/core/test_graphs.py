"""Whether anything was compiled, asked at any moment of the compiler's life."""

import sys
import types

import pytest

from traintrace.pytorch.graphs import graphs_exist


def test_a_compiler_that_is_still_being_imported_has_no_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", types.ModuleType("torch._dynamo"))
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert not graphs_exist()
    half = types.ModuleType("torch._dynamo.utils")
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", half)
    assert not graphs_exist()
    monkeypatch.setattr(half, "counters", {"stats": {"unique_graphs": 1}}, raising=False)
    assert graphs_exist()
