import copy
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import DocumentConverter
from hsa_pyg.data import Schema
from hsa_pyg.integrations.transformers.features import SentenceFeatures, token_vectors
from hsa_pyg.nn import HSATransformer, LeafEncoder

FILM = "A fine film. I liked it!\n\nSee it twice."
OTHER = "Dull."


def convert(text, keep_text=True, **options):
    return DocumentConverter(None, keep_text=keep_text, **options).text(text, "it", y=1)


class Lengths:
    """Vectors that tell what was encoded: a text's length and its first letter."""

    def __init__(self):
        self.seen = []

    def __call__(self, texts):
        self.seen.append(list(texts))
        rows = [[len(text), ord(text[0])] for text in texts]
        return torch.tensor(rows, dtype=torch.float16).view(-1, 2)


@pytest.fixture
def features():
    return SentenceFeatures(Lengths())


def test_sentences_become_leaves(features):
    before = convert(FILM)
    signal = features(before)
    assert features.vectors.seen == [["A fine film.", "I liked it!", "See it twice."]]
    assert signal.validate()
    assert signal.schema.leaf_types == ["sentence"]
    assert signal["sentence"].x.tolist() == [[12, 65], [11, 73], [13, 83]]
    assert signal["sentence"].x.dtype == torch.float32
    h = signal.hierarchy
    assert (h.num_leaves, h.max_depth, h.num_nodes) == (3, 2, 6)
    for name in ("pos", "span"):
        assert torch.equal(signal["sentence"][name], before["sentence"][name])
    assert signal.y.tolist() == [1]
    assert signal.source == "it"
    # The one that was given stays as it is.
    assert before.validate()
    assert before["token"].num_nodes > 3
    assert "x" not in before["sentence"]


def test_all_signals_at_once_and_of_one_schema(features):
    signals = features.signals([convert(FILM), convert(OTHER), convert(FILM)])
    assert [len(found) for found in features.vectors.seen] == [7]
    assert Schema.of(signals[0]) == Schema.of(signals[1])
    assert signals[1]["sentence"].x.tolist() == [[5, 68]]
    batch = next(iter(DataLoader(signals, batch_size=3)))
    assert batch.hierarchy.num_leaves == 7
    model = HSATransformer.from_schema(signals[0].schema, 2, 8)
    assert model(batch).shape == (3, 2)
    # A part of the vectors of all would keep them in every file of a signal.
    assert signals[1]["sentence"].x.untyped_storage().nbytes() == 2 * 4


def test_texts_from_elsewhere(features):
    bare = [convert(FILM, keep_text=False), convert(OTHER, keep_text=False)]
    given = features.signals(bare, [FILM, OTHER])
    kept = features.signals([convert(FILM), convert(OTHER)])
    for a, b in zip(given, kept, strict=True):
        assert torch.equal(a["sentence"].x, b["sentence"].x)

    class Dataset(list):
        def raw_texts(self):
            return SimpleNamespace(texts=[FILM, OTHER])

    again = features.signals(Dataset(bare))
    assert torch.equal(again[0]["sentence"].x, given[0]["sentence"].x)
    with pytest.raises(ValueError, match="2 signals have 1 texts"):
        features.signals(bare, [FILM])
    with pytest.raises(ValueError, match="keep_text=True, or pass texts="):
        features(bare[0])


def test_a_budget_of_tokens_is_kept(features):
    signal = features(convert(FILM, max_tokens=6))
    assert features.vectors.seen == [["A fine film.", "I liked"]]
    assert signal["sentence"].num_nodes == 2


def test_half_precision_is_kept_if_asked():
    signal = SentenceFeatures(Lengths(), dtype=torch.float16)(convert(OTHER))
    assert signal["sentence"].x.dtype == torch.float16


def test_signals_of_another_form(features):
    signal = convert(FILM)
    stray = copy.copy(signal)
    stray["token", "child_of", "paragraph"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(ValueError, match="join 'token' to 'paragraph'"):
        features(stray)
    inside = copy.copy(signal)
    inside["image"].x = torch.zeros(1, 2)
    inside["image", "child_of", "sentence"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(ValueError, match="join 'image' to 'sentence'"):
        features(inside)
    with pytest.raises(ValueError, match="no type 'phrase' with spans"):
        SentenceFeatures(Lengths(), sentence="phrase")(signal)


def test_relations_of_tokens_go_with_them(features):
    signal = convert(FILM)
    signal["token", "before", "token"].edge_index = torch.tensor([[0], [1]])
    signal["sentence", "before", "sentence"].edge_index = torch.tensor([[0], [1]])
    out = features(signal)
    assert out.validate()
    assert [kind for kind in out.edge_types if kind[1] == "before"] == [
        ("sentence", "before", "sentence")
    ]


@pytest.mark.parametrize("stem", ["Bert", "Albert"])
def test_input_embeddings_as_word_vectors(tiny, stem):
    model = tiny(stem)
    table = model.get_input_embeddings().weight
    module = token_vectors(model, 8)
    ids = torch.tensor([3, 98])
    torch.testing.assert_close(module(ids), module.lin(table[ids]))
    assert not any(p is table for p in module.parameters())
    assert len(list(module.parameters())) == 2
    assert len(list(token_vectors(model, 8, trainable=True).parameters())) == 3
    encoder = LeafEncoder(8, modules={"token": module})
    assert encoder.leaf_types == ["token"]


def test_models_without_input_embeddings(tiny):
    for model in (tiny("ViT"), torch.nn.Linear(2, 2), None):
        with pytest.raises(TypeError, match="no table of token embeddings"):
            token_vectors(model, 8)


def test_a_sentence_without_tokens_keeps_its_text(features):
    signal = convert(FILM)
    edges = signal["token", "child_of", "sentence"]
    edges.edge_index = edges.edge_index[:, edges.edge_index[1] != 1]
    found = features.sentences(signal, FILM)
    assert found == ["A fine film.", "I liked it!", "See it twice."]
