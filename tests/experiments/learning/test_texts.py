import json
from collections import Counter

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.experiments.learning.building import build_model
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import drawn, load_task
from tests.experiments.learning import tiny_data

SIZES = {"train_size": 5, "val_size": 4, "test_size": 4}


def load(folder, **settings):
    complete = complete_settings(LearningSettings(**{**SIZES, **settings}))
    return load_task(complete, folder / "data", folder / "cache")


def kept(folder, name):
    (path,) = (folder / "cache").glob(f"*/vocabularies/{name}.json")
    return json.loads(path.read_text())["model"]["vocab"].keys()


def repeated(texts):
    words = Counter(" ".join(texts).lower().replace(".", " . ").split())
    return {word for word, number in words.items() if number >= 2}


def test_a_learned_vocabulary_is_of_the_drawn_texts(tmp_path):
    tiny_data.write_imdb(tmp_path / "data")
    whole = load(tmp_path, task="imdb", train_size=0)
    assert not (tmp_path / "cache/imdb/vocabularies").exists()
    some = load(tmp_path, task="imdb")
    texts = whole.texts()[0].texts
    chosen = [texts[i] for i in drawn(len(texts), 5, "training")]
    assert some.texts()[0].texts == chosen
    found = kept(tmp_path, "imdb-train5")
    assert found == {"[PAD]", "[UNK]"} | repeated(
        [text.replace("<br /><br />", " ") for text in chosen]
    )
    assert some.facts["vocabulary"] == some.vocab_sizes["token"] == len(found)
    assert len(found) < whole.facts["vocabulary"]
    # Another length of documents has the same words, another subset its own.
    short = load(tmp_path, task="imdb", max_tokens=3)
    assert short.facts["vocabulary"] == len(found)
    load(tmp_path, task="imdb", train_size=9)
    assert kept(tmp_path, "imdb-train9") != found


def test_a_fold_draws_from_its_own_training_texts(tmp_path):
    tiny_data.write_movie_reviews(tmp_path / "cache")
    task = load(tmp_path, task="movie-reviews", fold=2)
    found = kept(tmp_path, "movie-reviews-fold2-train5")
    assert found == {"[PAD]", "[UNK]"} | repeated(task.texts()[0].texts)
    assert len(task.train) == 5


def test_words_of_sst_beyond_the_drawn_sentences_are_unknown(tmp_path):
    tiny_data.write_sst(tmp_path / "data")
    task = load(tmp_path, task="sst", train_size=1, test_size=0)
    words = {word for signal in task.train for word in signal["word"].text}
    assert task.vocab_sizes == {"word": 2 + len(words)}
    for signal in task.test:
        known = torch.tensor([word in words for word in signal["word"].text])
        assert torch.equal(signal["word"].x > 1, known)
    assert any(bool((signal["word"].x == 1).any()) for signal in task.test)


def test_fixed_vectors_of_sst_reach_words_of_no_training_sentence(tmp_path):
    tiny_data.write_sst(tmp_path / "data")
    dev = tmp_path / "data" / "sst_trees" / "dev.txt"
    dev.write_text("(4 (3 Splendid) (2 film))\n(1 (1 bad) (2 splendid))\n")
    vectors = tmp_path / "v.txt"
    vectors.write_text("splendid 1.0 2.0\nfilm 3.0 4.0\nother 5.0 6.0\n")
    sizes = dict.fromkeys(SIZES, 0)
    task = load(tmp_path, task="sst", features="glove", vectors=str(vectors), **sizes)
    first, second = (signal["word"].x.tolist() for signal in task.val)
    assert first[0] == second[1] > 1
    assert task.encoder is not None
    table = task.encoder(4).encoders["word"].table
    assert table[first].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert task.facts["words_with_vector"] == 2
    # All words have ids of their own, those without a vector too.
    texts = [signal["word"] for part in (task.train, task.val) for signal in part]
    ids = {w.lower(): i for one in texts for w, i in zip(one.text, one.x, strict=True)}
    assert len({int(i) for i in ids.values()}) == len(ids)
    assert task.facts["vocabulary"] == 2 + len(ids)


@pytest.mark.parametrize("tuned", [False, True])
def test_word_vectors_may_be_trained_on(tmp_path, tuned):
    tiny_data.write_sst(tmp_path / "data")
    vectors = tmp_path / "v.txt"
    vectors.write_text("film 3.0 4.0\nbad 5.0 6.0\n")
    sst = {"task": "sst", "features": "glove", "vectors": str(vectors)}
    task = load(tmp_path, **sst, tune_vectors=tuned)
    assert task.encoder is not None
    encoder = task.encoder(4)
    trained = {name for name, _ in encoder.named_parameters() if "table" in name}
    assert trained == ({"encoders.word.table"} if tuned else set())
    ids = task.train[2]["word"].x
    assert task.train[2]["word"].text == ["film"]
    assert encoder.encoders["word"].table[ids].tolist() == [[3.0, 4.0]]


def test_the_flat_twin_of_the_paper_has_softmax_over_the_first_tokens(tmp_path):
    tiny_data.write_imdb(tmp_path / "data")
    paper = {"task": "imdb", "regime": "paper", "channels": 6, "heads": 3}
    paper |= {"position_channels": 4, "train_size": 0}
    whole = load(tmp_path, **paper)
    twin = {**paper, "model": "flat", "tree": "flat", "max_tokens": 7}
    first = load(tmp_path, **twin)
    assert all(
        torch.equal(one["token"].x, other["token"].x[:7])
        for one, other in zip(first.train, whole.train, strict=True)
    )
    assert any(len(signal["token"].x) > 7 for signal in whole.train)
    batch = Batch.from_data_list([first.train[0], first.train[1]])
    hierarchy = batch.hierarchy
    assert hierarchy.max_depth == 1
    torch.manual_seed(0)
    settings = complete_settings(LearningSettings(**twin))
    model = build_model(settings, first).eval().double()
    conv = model.blocks[0].conv
    eps, domain = model.position(batch, hierarchy)
    x = model.encoder(batch.x_dict, hierarchy)
    q, k, v, position, _ = conv.project(x, hierarchy, eps.double(), domain)
    e = position[hierarchy.leaves]
    scores = torch.einsum("ihd,jhd->hij", q, k) / q.size(-1) ** 0.5
    scores = scores + torch.einsum("ihd,jhd->hij", e, e)
    tree = batch["token"].batch
    # Within a document, and in the paper not to itself.
    seen = (tree[:, None] == tree) & ~torch.eye(len(tree), dtype=torch.bool)
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    expected = torch.einsum("hij,jhd->ihd", weights, v) + q
    found = conv(x, hierarchy, position=eps.double(), domain=domain)
    torch.testing.assert_close(found, conv.lin_out(expected.flatten(1)))
