import pytest
import torch

from hsa_pyg.converters.tokenization import EncodedText
from hsa_pyg.converters.trees import (
    TreeBuilder,
    Vocabulary,
    encode_texts,
)
from hsa_pyg.data import Feature, Schema
from hsa_pyg.hierarchy import CHILD_OF

SCHEMA = Schema(
    nodes={
        "list": {"name": Feature(None, "list")},
        "item": {"x": Feature((2,), torch.float)},
        "absent": {"x": Feature((), torch.long)},
    },
    edges={("item", CHILD_OF, "list"): {"weight": Feature((), torch.float)}},
)


def test_nodes_come_in_the_order_of_adding_with_attributes_of_their_edges():
    builder = TreeBuilder(SCHEMA)
    root = builder.add("list", name="shopping")
    builder.add("item", root, edge={"weight": 2}, x=(1, 2))
    builder.add("item", root, edge={"weight": 3}, x=torch.tensor([3, 4]))
    signal = TreeBuilder.signal(builder)
    signal.validate()
    assert signal["list"].name == ["shopping"]
    assert signal["item"].x.tolist() == [[1, 2], [3, 4]]
    edge = signal["item", CHILD_OF, "list"]
    assert edge.weight.tolist() == [2, 3]
    assert edge.edge_index.tolist() == [[0, 1], [0, 0]]
    assert signal["absent"].x.shape == (0,)
    assert signal["absent"].x.dtype == torch.long


def test_vocabulary_of_a_list_a_mapping_and_a_number():
    assert Vocabulary(["a", "b"], "key", "keys", first=1)("b", "$") == 2
    assert Vocabulary({"a": 7}, "key", "keys")("a", "$") == 7
    assert Vocabulary({"a": 7}, "key", "keys").size == 8
    hashed = Vocabulary(10, "key", "keys", first=1)
    ids = [hashed(str(number), "$") for number in range(200)]
    assert set(ids) == set(range(1, 10))
    # A change here would change the meaning of trained embeddings.
    assert [hashed(name, "$") for name in ("title", "body")] == [1, 7]
    known = Vocabulary(["a"], "key", "keys")
    assert Vocabulary.of(known, "key", "keys") is known


def test_an_unknown_name_needs_a_name_for_the_unknown():
    with pytest.raises(ValueError, match=r"key 'c' at \$\.b is not in keys; add it"):
        Vocabulary(["a"], "key", "keys")("c", lambda: "$.b")
    assert Vocabulary(["a", "[UNK]"], "key", "keys")("c", "$") == 1


@pytest.mark.parametrize(
    ("names", "error", "text"),
    [
        (["a", "a"], ValueError, "keys holds 'a' twice"),
        ({"a": -1}, ValueError, "keys holds a negative id"),
        ([], ValueError, "leaves no id for a key"),
        (0, ValueError, "leaves no id for a key"),
        ("abc", TypeError, "keys is a str: pass a list"),
        (True, TypeError, "keys is a bool"),
    ],
)
def test_bad_vocabularies_are_named(names, error, text):
    with pytest.raises(error, match=text):
        Vocabulary(names, "key", "keys")


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ([], "0 results for 1 texts"),
        ([EncodedText([1], [])], "1 ids but 0 spans for the text at place 0"),
        ([EncodedText([-1], [(0, 1)])], "the id -1 for the text at place 0"),
        ([EncodedText([1.0], [(0, 1)])], "the id 1.0 for the text"),
        ([EncodedText([1], [(0, 4)])], r"span \(0, 4\) .* which has 3 characters"),
    ],
)
def test_what_a_tokenizer_gives_is_checked(encoded, text):
    with pytest.raises(ValueError, match=text):
        encode_texts(lambda _: encoded, ["abc"], lambda row: f"place {row}")
