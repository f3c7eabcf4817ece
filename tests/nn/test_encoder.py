import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.data import Feature, NestedSignal, Schema
from hsa_pyg.nn import LeafEncoder, TokenEmbedding


@pytest.fixture
def hierarchy() -> SignalHierarchy:
    """Two images, no video and three words under one page."""
    edges = {
        ("image", "child_of", "page"): torch.tensor([[0, 1], [0, 0]]),
        ("word", "child_of", "page"): torch.tensor([[0, 1, 2], [0, 0, 0]]),
    }
    return SignalHierarchy.from_edge_index(
        edges, {"image": 2, "page": 1, "video": 0, "word": 3}
    )


def test_rows_follow_the_hierarchy(hierarchy):
    custom = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    encoder = LeafEncoder(
        4, vocab_sizes={"word": 9}, in_channels={"video": 5}, modules={"image": custom}
    )
    x_dict = {"word": torch.tensor([8, 0, 8]), "image": torch.randn(2, 3, 2, 2)}
    out = encoder(x_dict, hierarchy)
    torch.testing.assert_close(out[:2], custom(x_dict["image"]))
    assert torch.equal(out[2:], encoder.encoders["word"].weight[[8, 0, 8]])
    assert torch.equal(encoder({**x_dict, "video": torch.randn(0, 5)}, hierarchy), out)


def test_vectors_are_mapped_linearly(hierarchy):
    encoder = LeafEncoder(4, in_channels={"image": -1, "word": 3})
    x_dict = {"word": torch.randn(3, 3), "image": torch.randn(2, 7)}
    out = encoder(x_dict, hierarchy)
    lin = encoder.encoders["image"]
    torch.testing.assert_close(out[:2], x_dict["image"] @ lin.weight.t() + lin.bias)


def test_table_entries_have_variance_one_over_channels():
    table = TokenEmbedding(5000, 64)
    norms = table.weight.square().sum(1)
    torch.testing.assert_close(norms.mean(), torch.tensor(1.0), atol=0.02, rtol=0.0)


def test_encoder_of_a_schema():
    schema = Schema(
        nodes={
            "page": {},
            "word": {"x": Feature(dtype=torch.long)},
            "image": {"x": Feature((7,))},
        }
    )
    encoder = LeafEncoder.from_schema(schema, 4, vocab_sizes={"word": 9})
    assert str(encoder) == (
        "LeafEncoder(4, word=TokenEmbedding(9, 4), image=Linear(7, 4, bias=True))"
    )
    with pytest.raises(ValueError, match=r"'word' holds torch\.int64 rows of shape"):
        LeafEncoder.from_schema(schema, 4)
    # A type misspelt is what is wrong, rather than that the right one has no size.
    with pytest.raises(ValueError, match=r"names \['wrod'\], but .*'word'"):
        LeafEncoder.from_schema(schema, 8, {"wrod": 5})
    with pytest.raises(ValueError, match=r"names \['audio'\], but the leaf types are"):
        LeafEncoder.from_schema(schema, 4, vocab_sizes={"word": 9, "audio": 2})


def test_no_leaf_at_all():
    encoder = LeafEncoder(4, vocab_sizes={"word": 9})
    h = SignalHierarchy.from_edge_index({}, {"page": 1, "word": 0}, ["word"])
    assert encoder({"word": torch.empty(0, dtype=torch.long)}, h).shape == (0, 4)


def test_what_is_wrong_is_named(hierarchy):
    words = {"word": torch.tensor([1, 2, 3])}
    images = {"image": torch.randn(2, 4)}
    encoder = LeafEncoder(4, vocab_sizes={"word": 9})
    with pytest.raises(ValueError, match="2 leaves of type 'image' lack an encoder"):
        encoder({**words, **images}, hierarchy)
    encoder = LeafEncoder(
        4, vocab_sizes={"word": 9}, modules={"image": torch.nn.Identity()}
    )
    with pytest.raises(ValueError, match="2 leaves of type 'image' lack features"):
        encoder(words, hierarchy)
    with pytest.raises(
        ValueError, match=r"'image' must give shape \(2, 4\), got \(1, 4"
    ):
        encoder({**words, "image": images["image"][:1]}, hierarchy)
    with pytest.raises(ValueError, match="'word' must hold token ids"):
        encoder({"word": torch.randn(3), **images}, hierarchy)
    with pytest.raises(ValueError, match=r"'word' must hold token ids .*uint8"):
        encoder({"word": words["word"].byte(), **images}, hierarchy)
    for wrong in (9, -1):
        ids = torch.tensor([1, 2, wrong])
        with pytest.raises(IndexError, match=f"leaf 2 of type 'word' .* id {wrong}, b"):
            encoder({"word": ids, **images}, hierarchy)
    encoder = LeafEncoder(4, in_channels={"word": 5, "image": -1})
    for image in (images["image"][:, 0], images["image"].double()):
        with pytest.raises(ValueError, match="'image'"):
            encoder({"word": torch.randn(3, 5), "image": image}, hierarchy)
    with pytest.raises(ValueError, match=r"'word' must hold .*\[n, 5\], got \(3, 6\)"):
        encoder({"word": torch.randn(3, 6), **images}, hierarchy)
    with pytest.raises(ValueError, match="knows no node types"):
        encoder(words, SignalHierarchy.from_parents(torch.tensor([-1, 0])))
    with pytest.raises(ValueError, match="no leaf type has an encoder"):
        LeafEncoder(4)
    with pytest.raises(ValueError, match=r"\['word'\] have more than one encoder"):
        LeafEncoder(4, vocab_sizes={"word": 9}, in_channels={"word": 3})


def test_rows_of_several_ids_have_a_table_each():
    schema = Schema(
        nodes={"molecule": {}, "atom": {"x": Feature((2,), torch.long)}},
        edges=[("atom", "child_of", "molecule")],
    )
    encoder = LeafEncoder.from_schema(schema, 4, vocab_sizes={"atom": [3, 2]})
    assert str(encoder) == "LeafEncoder(4, atom=CategoryEmbedding([3, 2], 4))"
    edges = {("atom", "child_of", "molecule"): torch.tensor([[0, 1], [0, 0]])}
    hierarchy = SignalHierarchy.from_edge_index(edges, {"molecule": 1, "atom": 2})
    out = encoder({"atom": torch.tensor([[2, 0], [2, 1]])}, hierarchy)
    table = encoder.encoders["atom"].embedding.weight
    assert torch.equal(out, torch.stack([table[2] + table[3], table[2] + table[4]]))


def test_sizes_that_do_not_fit_the_rows_are_named():
    rows = Schema(nodes={"atom": {"x": Feature((2,), torch.long)}})
    for size, columns in ((9, "one id a row"), ([9, 9, 9], "3 ids a row")):
        with pytest.raises(
            ValueError, match=rf"vocab_sizes\['atom'\] is for {columns}"
        ):
            LeafEncoder.from_schema(rows, 4, vocab_sizes={"atom": size})
    single = Schema(nodes={"word": {"x": Feature((), torch.long)}})
    with pytest.raises(ValueError, match="is for 1 ids a row, but leaf type 'word'"):
        LeafEncoder.from_schema(single, 4, vocab_sizes={"word": [9]})


@pytest.mark.parametrize(
    ("shape", "remedy"), [((6, 2, 8), r"x\.flatten\(1\)"), ((6,), r"x\[:, None\]")]
)
def test_floats_that_are_no_vectors_are_not_taken_for_ids(shape, remedy):
    signal = NestedSignal()
    signal["word"].x = torch.ones(shape)
    message = rf"leaf type 'word' holds torch\.float32 rows .*: use {remedy}"
    with pytest.raises(ValueError, match=message) as caught:
        LeafEncoder.from_schema(signal.schema, 8)
    assert "token ids" not in str(caught.value)


def test_a_schema_without_features_names_its_types():
    signal = NestedSignal()
    signal["page"].num_nodes, signal["word"].num_nodes = 1, 2
    edge = torch.tensor([[0, 1], [0, 0]])
    signal["word", "child_of", "page"].edge_index = edge
    signal["page", "mentions", "word"].edge_index = edge.flip(0)
    message = r"types \['page', 'word'\] has features 'x'.*; set signal\['word'\]\.x"
    with pytest.raises(ValueError, match=message):
        LeafEncoder.from_schema(signal.schema, 8)
