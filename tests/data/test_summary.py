import torch
from torch_geometric.data import Batch

from hsa_pyg.data import NestedSignal


def test_repr_gives_a_line_to_each_type_relation_and_label(make_page):
    page = make_page(words=2, pictures=1)
    page["word"].pos = torch.rand(2, 1)
    page["word", "follows", "word"].edge_index = torch.tensor([[1], [0]])
    page.name = "home"
    assert repr(page) == (
        "NestedSignal(\n"
        "  page: 1 node,\n"
        "  word: 2 leaves in page, x=[2] int64, pos=[2, 1],\n"
        "  picture: 1 leaf in page, x=[1, 4],\n"
        "  word follows word: 1 edges,\n"
        "  y=[1] int64,\n"
        "  name='home',\n"
        ")"
    )


def test_repr_of_a_batch_says_how_many_samples(make_page):
    batch = Batch.from_data_list([make_page(words=2), make_page(words=1)])
    assert repr(batch).startswith("NestedSignalBatch(\n  2 samples,\n  page: 2 nodes,")


def test_repr_works_bare_and_with_a_type_of_unknown_size():
    assert repr(NestedSignal()) == "NestedSignal()"
    signal = NestedSignal()
    signal["page"].title = ["a"]
    assert "page: ? nodes, title=list of 1," in repr(signal)
