import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from hsa_pyg.data import Feature, NestedSignal, Schema, unify
from hsa_pyg.datasets.fake import FakeNestedDataset
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.loader import DataLoader


def make_page(words: int = 0, pictures: int = 0) -> NestedSignal:
    page = NestedSignal(page={"num_nodes": 1}, y=torch.tensor([words]))
    for kind, x in (
        ("word", torch.randint(9, (words,))),
        ("picture", torch.rand(pictures, 4)),
    ):
        if x.size(0):
            page[kind].x = x
            edge = torch.stack([torch.arange(x.size(0)), torch.zeros(x.size(0)).long()])
            page[kind, "child_of", "page"].edge_index = edge
    return page


def same(first: NestedSignal, second: NestedSignal) -> bool:
    mine, other = first.to_dict(), second.to_dict()
    return mine.keys() == other.keys() and all(
        mine[kind].keys() == other[kind].keys()
        and all(
            torch.equal(torch.as_tensor(mine[kind][name]), torch.as_tensor(value))
            for name, value in other[kind].items()
        )
        for kind in mine
    )


@pytest.fixture
def pages() -> list[NestedSignal]:
    return [make_page(3), make_page(1, 2), make_page(0, 1), make_page(2)]


@pytest.fixture
def no_compilation(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From the call on, a hierarchy compiled in this process is an error."""

    def forbidden(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("compiled in the main process")

    def forbid() -> None:
        monkeypatch.setattr(SignalHierarchy, "from_edge_index", forbidden)

    return forbid


@pytest.mark.parametrize("seed", range(5))
def test_01_unlike_signals_lose_no_node_in_any_order(pages, seed):
    random.Random(seed).shuffle(pages)
    (batch,) = DataLoader(pages, batch_size=4)
    assert batch["word"].num_nodes == 6
    assert batch["picture"].num_nodes == 3
    assert set(batch.node_types) == {"page", "word", "picture"}
    assert batch.validate()
    for index, page in enumerate(unify(pages)):
        assert same(batch[index], page)


def test_01_all_batches_of_a_list_have_the_same_types(pages):
    torch.manual_seed(0)
    batches = list(DataLoader(pages * 3, batch_size=2, shuffle=True))
    assert sum(batch["picture"].num_nodes for batch in batches) == 9
    assert {tuple(batch.node_types) for batch in batches} == {
        ("page", "word", "picture")
    }
    assert len({tuple(batch.edge_types) for batch in batches}) == 1


def test_17_present_absent_present_keeps_labels_and_parents_right():
    pages = [make_page(0, 1), make_page(2), make_page(0, 1)]
    (batch,) = DataLoader(pages, batch_size=3)
    assert batch["picture"].batch.tolist() == [0, 2]
    edge = batch["picture", "child_of", "page"].edge_index
    assert edge.tolist() == [[0, 1], [0, 2]]


def test_18_a_conflict_is_raised_before_the_first_batch(pages):
    pages[2]["picture"].x = pages[2]["picture"].x.double()
    with pytest.raises(ValueError, match=r"sample 2: attribute 'x' of type 'picture'"):
        DataLoader(pages)


def test_a_schema_is_given_to_every_batch():
    schema = Schema(
        nodes={
            "page": {},
            "word": {"x": Feature((), torch.long)},
            "video": {"x": Feature((9,))},
        },
        edges=[("word", "child_of", "page"), ("video", "child_of", "page")],
    )
    (batch,) = DataLoader([make_page(2)], schema=schema)
    assert batch["video"].x.shape == (0, 9)
    with pytest.raises(ValueError, match=r"sample 1 of the batch has type 'picture'"):
        next(iter(DataLoader([make_page(1), make_page(0, 1)], 2, schema=schema)))


def test_samples_of_a_data_set_are_unified_batch_by_batch(pages):
    class Pages(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(pages)

        def __getitem__(self, index: int) -> NestedSignal:
            return pages[index]

    first, second = DataLoader(Pages(), batch_size=2)
    assert first["picture"].num_nodes == 2
    assert second["word"].num_nodes == 2


def test_follow_batch_and_exclude_keys_are_followed(pages):
    loader = DataLoader(pages, 4, follow_batch=["x"], exclude_keys=["y"])
    batch = next(iter(loader))
    assert batch["picture"].x_batch.tolist() == [1, 1, 2]
    assert "y" not in batch


def test_signals_may_come_with_other_things(pages):
    batch, weight = next(iter(DataLoader([(page, 0.5) for page in pages], 4)))
    assert batch.hierarchy.num_trees == 4
    assert weight.tolist() == [0.5] * 4


def test_a_batch_of_no_samples_is_named(pages):
    loader = DataLoader(pages, batch_sampler=[[0, 1], []])
    with pytest.raises(ValueError, match=r"no sample.*every batch at least one index"):
        list(loader)


@pytest.mark.parametrize("signal_first", [True, False])
def test_a_signal_among_other_graphs_is_refused_in_any_order(pages, signal_first):
    graph = HeteroData.from_dict(pages[0].to_dict())
    mixed = [pages[1], graph] if signal_first else [graph, pages[1]]
    number = int(signal_first)
    with pytest.raises(TypeError, match=f"sample {number} is a HeteroData, no Nested"):
        list(DataLoader(mixed, batch_size=2))


def test_other_samples_are_batched_as_by_pyg():
    assert next(iter(DataLoader([1, 2], batch_size=2))).tolist() == [1, 2]


def test_15_a_batch_arrives_with_its_hierarchy(pages, no_compilation):
    iterator = iter(DataLoader(pages, batch_size=4))
    batch = next(iterator)
    no_compilation()
    assert batch.hierarchy.num_leaves == 9


def test_15_workers_compile_the_hierarchy(pages, no_compilation):
    iterator = iter(DataLoader(pages * 2, batch_size=3, num_workers=2))
    no_compilation()
    trees = [(batch.hierarchy.num_trees, batch.num_graphs) for batch in iterator]
    assert trees == [(3, 3), (3, 3), (2, 2)]


def test_15_persistent_and_spawned_workers_serve_several_epochs(no_compilation):
    dataset = FakeNestedDataset(num_samples=6, missing=0.5, empty=0.3, seed=3)
    expected = [batch.hierarchy.parent.clone() for batch in DataLoader(dataset, 3)]
    loader = DataLoader(
        dataset,
        batch_size=3,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="spawn",
    )
    no_compilation()
    for _ in range(2):
        parents = [batch.hierarchy.parent for batch in loader]
        assert all(map(torch.equal, parents, expected))


def test_31_empty_types_come_through_workers_and_batches_come_apart():
    pages = unify([make_page(1), make_page(2), make_page(0, 1)])
    loader = DataLoader(pages, batch_size=2, num_workers=1)
    first, second = loader  # the first batch has no picture, the second no word
    assert first["picture"].x.shape == (0, 4)
    assert same(first[1], pages[1])
    assert same(second[0], pages[2])


def test_15_a_batch_is_pinned_with_its_hierarchy(pages, no_compilation, monkeypatch):
    # Page-locked memory needs a GPU; what is asked for does not.
    pinned: list[Tensor] = []
    monkeypatch.setattr(
        Tensor, "pin_memory", lambda x: pinned.append(x.clone()) or pinned[-1]
    )
    (batch,) = DataLoader(pages, batch_size=4, num_workers=1)
    no_compilation()
    batch = torch.utils.data._utils.pin_memory.pin_memory(batch)
    assert any(batch["word"].x is tensor for tensor in pinned)
    assert any(batch.hierarchy.leaves is tensor for tensor in pinned)
