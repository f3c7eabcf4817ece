"""Small pages of words and pictures, and what it takes to compare two signals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hsa_pyg.data import NestedSignal

WORD, PICTURE = ("word", "child_of", "page"), ("picture", "child_of", "page")


def make_page(words: int = 0, pictures: int = 0) -> NestedSignal:
    """A page, which holds only num_nodes, with its words and pictures, if any."""
    page = NestedSignal()
    page["page"].num_nodes = 1
    if words:
        page["word"].x = torch.randint(9, (words,))
        page[WORD].edge_index = under_one_parent(words)
    if pictures:
        page["picture"].x = torch.rand(pictures, 4)
        page[PICTURE].edge_index = under_one_parent(pictures)
    page.y = torch.tensor([words])
    return page


def under_one_parent(children: int) -> Tensor:
    return torch.stack([torch.arange(children), torch.zeros(children).long()])


def have_same_content(first: NestedSignal, second: NestedSignal) -> bool:
    return type(first) is type(second) and _same(first.to_dict(), second.to_dict())


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            _same(first[key], second[key]) for key in first
        )
    if isinstance(first, Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return type(first) is type(second) and first == second


@pytest.fixture(name="make_page")
def make_page_fixture() -> Any:
    return make_page


@pytest.fixture
def same() -> Any:
    return have_same_content


@pytest.fixture
def count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by one entry with every hierarchy that is compiled."""
    from hsa_pyg.hierarchy import SignalHierarchy

    calls: list[str] = []
    build = SignalHierarchy.from_edge_index.__func__

    def counted(cls: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append("compiled")
        return build(cls, *args, **kwargs)

    monkeypatch.setattr(SignalHierarchy, "from_edge_index", classmethod(counted))
    return calls
