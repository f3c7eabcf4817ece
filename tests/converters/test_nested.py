import decimal
import fractions
import io
import json
import math
from collections import OrderedDict

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import from_nested
from hsa_pyg.converters.nested import nested_schema
from hsa_pyg.data import Schema
from hsa_pyg.nn.positional import HierarchicalPosition, KeyValuePosition

ARTICLE = {
    "title": "Storm warning",
    "tags": ["sea", "wind"],
    "wind": {"speed": 9.5, "gusts": [11, 14]},
    "final": False,
    "note": None,
}


def test_every_value_is_a_node_of_its_type():
    signal = from_nested(ARTICLE, y=2)
    assert signal.validate()
    assert Schema.of(signal).nodes == nested_schema().nodes
    assert signal["record"].key_name == ["", "wind"]
    assert signal["sequence"].key_name == ["tags", "gusts"]
    assert signal["text"].text == ["Storm warning", "sea", "wind"]
    assert signal["text"].pos.tolist() == [[0], [0], [1]]
    assert signal["number"].x.tolist() == [[9.5], [11], [14]]
    assert signal["number"].pos.tolist() == [[0], [0], [1]]
    assert signal["constant"].x.tolist() == [1, 0]
    assert signal["constant"].key_name == ["final", "note"]
    spans = signal["token"].span.tolist()
    owners = signal["token", "child_of", "text"].edge_index[1].tolist()
    words = [
        signal["text"].text[text][start:stop]
        for text, (start, stop) in zip(owners, spans, strict=True)
    ]
    assert words == ["Storm", "warning", "sea", "wind"]
    assert signal.y.tolist() == [2]


def test_key_ids_are_the_same_in_every_document():
    one = from_nested({"a": 1, "b": 2})["number"]
    other = from_nested({"b": 2, "a": 1})["number"]
    assert one.key.tolist() == other.key.tolist()[::-1]
    assert min(one.key) > 0
    # Trained embeddings rely on these.
    assert one.key.tolist() == [1 + 3904355907 % 1023, 1 + 1908338681 % 1023]
    listed = from_nested({"b": 2, "a": [1]}, keys=["a", "b"])
    assert listed["number"].key.tolist() == [2, 0]
    assert listed["sequence"].key.tolist() == [1]
    with pytest.raises(ValueError, match=r"key 'c' at \$\.b\[0\] is not in keys"):
        from_nested({"b": [{"c": 0}]}, keys=["b"])
    unknown = from_nested({"c": 0}, keys=["b", "[UNK]"])
    assert unknown["number"].key.tolist() == [2]


def test_positions_read_pos_in_sequences_and_key_in_records():
    signal = from_nested(ARTICLE)
    position = HierarchicalPosition(
        {
            "sequence": "sequence",
            "record": KeyValuePosition(1024, 8),
            "text": "sequence",
        },
        8,
    )
    found, _ = position(signal, signal.hierarchy)
    first = {kind: start for kind, (start, _) in signal.hierarchy.node_slices.items()}
    key = signal["constant"].key
    expected = position.domains["record"](key)
    start = first["constant"]
    assert found[start : start + 2].equal(expected)


def test_types_can_have_other_names():
    signal = from_nested(ARTICLE, types={"record": "article", "number": "figure"})
    assert signal["article"].num_nodes == 2
    assert "record" not in signal.node_types
    with pytest.raises(ValueError, match="renames 'dict', which is not among"):
        from_nested([], types={"dict": "article"})
    with pytest.raises(ValueError, match="gives two types one name"):
        from_nested([], types={"record": "sequence"})


def test_numbers_that_float32_cannot_hold_are_marked_and_counted():
    values = [10**400, -(10**400), math.nan, -math.inf, 1e39, 2.5]
    with pytest.warns(UserWarning, match=r"5 numbers .* first at \$\.a\[0\]"):
        signal = from_nested({"a": values})
    largest = torch.finfo(torch.float).max
    expected = [largest, -largest, 0.0, -largest, largest, 2.5]
    assert signal["number"].x.view(-1).tolist() == expected
    assert signal["number"].clipped.tolist() == [True] * 5 + [False]
    assert signal.validate()


def test_numbers_of_other_libraries_are_numbers():
    values = [
        numpy.float32(1.5),
        numpy.int64(2),
        decimal.Decimal("0.25"),
        fractions.Fraction(1, 2),
    ]
    signal = from_nested((*values, numpy.bool_(True)))
    assert signal["number"].x.view(-1).tolist() == [1.5, 2, 0.25, 0.5]
    assert signal["constant"].x.tolist() == [2]


@pytest.mark.parametrize("empty", [[], {}, "", [[], {}, ""]])
def test_empty_containers_are_empty_nodes(empty):
    signal = from_nested({"full": 1, "empty": empty})
    assert signal.validate()
    assert signal.hierarchy.num_leaves == 1
    assert signal.hierarchy.num_empty >= 1
    assert from_nested(empty).hierarchy.num_leaves == 0


def test_a_single_value_is_a_tree():
    assert from_nested(7).hierarchy.num_nodes == 1
    assert from_nested("two words").hierarchy.num_leaves == 2


class Custom:
    pass


@pytest.mark.parametrize("value", [{1}, b"x", Custom(), 1j, iter([]), torch.ones(2)])
def test_other_objects_are_named_with_their_path(value):
    with pytest.raises(TypeError, match=r"object at \$\.a\[3\]\.b is a "):
        from_nested({"a": [0, 1, 2, {"b": value}]})
    with pytest.raises(TypeError, match=r"object at \$\['two words'\] is a "):
        from_nested({"two words": value})


def test_keys_are_strings_or_whole_numbers():
    assert from_nested({1: 2})["number"].key_name == ["1"]
    with pytest.raises(TypeError, match=r"key \(1, 2\) in \$\.a is a tuple"):
        from_nested({"a": {(1, 2): 0}})
    with pytest.raises(TypeError, match="key True in"):
        from_nested({True: 0})
    with pytest.raises(ValueError, match=r"Two keys in \$ have the name '1'"):
        from_nested({1: 0, "1": 0})


def test_half_characters_are_refused():
    with pytest.raises(ValueError, match=r"\$\[1\] holds a lone surrogate at char"):
        from_nested(["a", json.loads('"b\\ud83d"')])


def test_what_contains_itself_is_refused_and_what_is_shared_is_not():
    loop = [1]
    loop.append({"again": loop})
    with pytest.raises(ValueError, match=r"list at \$\[1\]\.again contains itself"):
        from_nested(loop)
    shared = [1, 2]
    assert from_nested([shared, shared])["number"].x.view(-1).tolist() == [1, 2, 1, 2]


def test_values_may_nest_a_hundred_thousand_deep():
    value, record = 5, "x"
    for _ in range(100_000):
        value = [value]
        record = {"a": record}
    signal = from_nested(value)
    assert signal.validate()
    assert signal.hierarchy.max_depth == 100_000
    assert from_nested(record)["record"].num_nodes == 100_000
    bad = [set()]
    for _ in range(100_000):
        bad = [bad]
    with pytest.raises(TypeError, match=r"\$\[0\].*\(99961 more\).* is a set"):
        from_nested(bad)


texts = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


@pytest.mark.filterwarnings("ignore:.*not finite in float32:UserWarning")
@given(values)
def test_whatever_json_can_hold_is_a_valid_signal(value):
    signal = from_nested(value)
    assert signal.validate()
    count, stack = 0, [value]
    while stack:
        top = stack.pop()
        count += 1
        if isinstance(top, dict | list):
            stack.extend(top.values() if isinstance(top, dict) else top)
    assert signal.hierarchy.num_nodes - signal["token"].num_nodes == count


def test_signals_of_unlike_documents_are_saved_and_batched():
    signals = [from_nested(ARTICLE), from_nested([1]), from_nested(OrderedDict(a="b"))]
    file = io.BytesIO()
    torch.save(signals[0], file)
    file.seek(0)
    assert torch.load(file, weights_only=True)["text"].text == signals[0]["text"].text
    batch = next(iter(DataLoader(signals, batch_size=3)))
    assert batch.hierarchy.num_trees == 3
    third = batch[2]
    assert third["text"].text == ["b"]
    assert third["text"].key_name == ["a"]
