import base64

import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg import NestedSignal
from hsa_pyg.analysis.viewer.contents import (
    TreeOrder,
    check_signal,
    encode,
    tree_contents,
)
from hsa_pyg.converters import ROLES, from_document
from hsa_pyg.datasets import FakeNestedDataset

PAGE = """<h1>Rain</h1><p>It 🙂 rained. We <b>read</b>.</p><ul><li>One.<li>Two.</ul>"""


def decode(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def walk(signal):
    """The nodes in reading order, by a plain walk."""
    hierarchy = signal.hierarchy
    below = {}
    for node, parent in enumerate(hierarchy.parent.tolist()):
        below.setdefault(parent, []).append(node)
    place = torch.full((hierarchy.num_nodes,), -1.0)
    for name, (start, stop) in hierarchy.node_slices.items():
        if "pos" in signal[name]:
            place[start:stop] = signal[name].pos[:, 0]
    order, stack = [], [below[-1][0]]
    while stack:
        node = stack.pop()
        order.append(node)
        children = sorted(below.get(node, []), key=lambda n: (float(place[n]), n))
        stack.extend(reversed(children))
    return order


@pytest.mark.parametrize("seed", range(6))
def test_nodes_come_as_a_reader_meets_them(seed):
    signal = FakeNestedDataset(
        num_samples=1, depth=5, branching=5, empty=0.2, shallow=0.3, seed=seed
    )[0]
    order = TreeOrder(signal)
    assert order.node.tolist() == walk(signal)
    for place, node in enumerate(order.node.tolist()):
        assert order.number[node] == place
        parent = int(signal.hierarchy.parent[node])
        assert order.parent[place] == (order.number[parent] if parent >= 0 else -1)


def test_a_deep_chain_is_ordered():
    signal = NestedSignal()
    signal["node"].num_nodes = 3000
    signal["leaf"].x = torch.zeros(1, 1)
    nodes = torch.arange(2999)
    signal["node", "child_of", "node"].edge_index = torch.stack([nodes, nodes + 1])
    signal["leaf", "child_of", "node"].edge_index = torch.tensor([[0], [0]])
    assert TreeOrder(signal).node.tolist() == [*range(2999, -1, -1), 3000]


def test_spans_count_as_javascript_does():
    signal = from_document(PAGE, format="html")
    order = TreeOrder(signal)
    contents = tree_contents(signal, order, {"block": ROLES, "paragraph": ROLES})
    spans = decode(contents["spans"], "<i4").reshape(-1, 2)
    kinds = decode(contents["kind"], "<u2")
    text = contents["texts"][0].encode("utf-16-le")
    token = [t["name"] for t in contents["types"]].index("token")
    tokens = [
        text[2 * start : 2 * stop].decode("utf-16-le")
        for start, stop in spans[kinds == token]
    ]
    assert " ".join(tokens) == "Rain It 🙂 rained . We read . One . Two ."
    roles = decode(contents["role"], "i1")
    assert {ROLES[role] for role in roles if role >= 0} == {
        "heading",
        "paragraph",
        "list",
        "item",
    }


def test_each_text_has_spans_of_its_own():
    signal = NestedSignal()
    signal["site"].num_nodes = 1
    signal["page"].num_nodes = 2
    signal["page"].text, signal["page"].title = ["ab", "cd"], ["First", "Second"]
    signal["word"].x = torch.tensor([1, 2])
    signal["word"].span = torch.tensor([[0, 1], [1, 2]])
    signal["page", "child_of", "site"].edge_index = torch.tensor([[0, 1], [0, 0]])
    signal["word", "child_of", "page"].edge_index = torch.tensor([[0, 1], [1, 0]])
    contents = tree_contents(signal, TreeOrder(signal))
    assert contents["texts"] == ["ab", "cd"]
    # Pages have no span: it is that of their whole text.
    assert decode(contents["spans"], "<i4").reshape(-1, 2).tolist() == [
        [-1, -1],
        [0, 2],
        [1, 2],
        [0, 2],
        [0, 1],
    ]
    assert contents["labels"] == {"1": "First", "2": "#2", "3": "Second", "4": "#1"}


def test_numbers_are_little_endian():
    values = np.array([1, 258], dtype=">i4")
    assert base64.b64decode(encode(values)) == b"\x01\0\0\0\x02\x01\0\0"


def test_what_no_page_can_show_is_refused():
    data = list(FakeNestedDataset(num_samples=2))
    (batch,) = DataLoader(data, batch_size=2)
    with pytest.raises(ValueError, match=r"batch of 2; take one of them, batch\[0\]"):
        check_signal(batch, 100)
    with pytest.raises(TypeError, match=r"got a list; a list has its signals at \[0\]"):
        check_signal(data, 100)
    with pytest.raises(ValueError, match=r"more than 2 leaves .* raise max_leaves"):
        check_signal(data[0], 2)
    forest = NestedSignal()
    forest["word"].x = torch.zeros(3, 1)
    with pytest.raises(ValueError, match="this signal has 3 roots"):
        check_signal(forest, 100)
