import sys

import pytest
import torch

from hsa_pyg.experiments.models import bag_of_words

GOOD = "a fine film, I liked it"
BAD = "a dull film, I did not like it"
TEXTS = [f"{(GOOD, BAD)[number % 2]} {number}" for number in range(12)]
LABELS = [1, 0] * 6


@pytest.fixture(scope="module")
def fitted():
    return bag_of_words(TEXTS, LABELS, grid=(1.0, 0.1), folds=3)


def test_it_learns_a_toy_task(fitted):
    assert fitted.predict(["fine and liked", "dull, not like it"]).tolist() == [1, 0]
    assert fitted.scores == {0.1: 1.0, 1.0: 1.0}
    # The strongest regularisation of equally good ones.
    assert fitted.C == 0.1
    words = fitted.pipeline[0].vocabulary_
    assert {"fine", "not like", ","} <= set(words)
    # Numbers that one text alone has are no feature.
    assert "3" not in words
    assert fitted.num_features == len(words)


def test_the_grid_grows_while_its_largest_is_best():
    """Two of three texts have one class: a weak regularisation alone sees it all."""
    texts = [f"{(GOOD, GOOD, BAD)[number % 3]} {number}" for number in range(12)]
    labels = [1, 1, 0] * 4
    grown = bag_of_words(texts, labels, grid=(0.01, 0.3), folds=3)
    assert list(grown.scores) == pytest.approx([0.01, 0.3, 0.9, 2.7])
    assert pytest.approx(0.9) == grown.C  # the next was no better
    assert grown.scores[0.3] < grown.scores[grown.C] == 1
    assert bag_of_words(texts, labels, grid=(0.01,), folds=3).scores.keys() == {0.01}
    to_the_limit = bag_of_words(texts, labels, grid=(0.01, 5e3), folds=3)
    assert to_the_limit.C == max(to_the_limit.scores) == 5e3


def test_same_texts_same_model(fitted):
    again = bag_of_words(TEXTS, torch.tensor(LABELS), grid=(1.0, 0.1), folds=3)
    assert (again.pipeline[1].coef_ == fitted.pipeline[1].coef_).all()


def test_folds_do_not_see_the_words_of_what_they_are_tried_on():
    """Every text has words of its own; counted with it, they could not help either."""
    texts = [f"w{i} w{i}" for i in range(8)]
    model = bag_of_words(texts, [0, 1] * 4, grid=(1.0,), folds=2, min_count=1)
    assert model.scores[1.0] == 0.5


def test_validation_texts_choose_in_place_of_folds():
    """Two of three texts have one class, and so has the validation or the other."""
    texts = [f"{(GOOD, GOOD, BAD)[number % 3]} {number}" for number in range(12)]
    labels = [1, 1, 0] * 4
    common, rare = ([GOOD], torch.tensor([1])), ([BAD], [0])
    grid = (0.01, 0.3, 0.9)
    easy = bag_of_words(texts, labels, grid=grid, validation=common)
    assert (easy.C, easy.scores) == (0.01, dict.fromkeys(grid, 1.0))
    # Texts with folds of their own are not needed.
    hard = bag_of_words(texts, labels, grid=grid, folds=12, validation=rare)
    assert (hard.C, hard.scores) == (0.3, {0.01: 0.0, 0.3: 1.0, 0.9: 1.0})
    assert hard.predict([BAD]).tolist() == [0]
    # What was chosen by is not learned.
    words = bag_of_words(texts, labels, grid=(1.0,), validation=(["unheard of"], [0]))
    assert "unheard" not in words.pipeline[0].vocabulary_


def test_more_than_two_classes():
    texts = ["red", "green", "blue"] * 4
    model = bag_of_words(texts, [0, 1, 2] * 4, grid=(10.0,), folds=2, max_ngram=1)
    assert model.predict(texts[:3]).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 1], {}, "12 texts have 2 labels"),
        (LABELS, {"folds": 7}, "at least 7"),
        ([1] * 12, {}, "two classes"),
        (LABELS, {"grid": ()}, "'grid' is empty"),
        (LABELS, {"validation": (TEXTS, [0])}, "12 texts have 1 labels"),
        (LABELS, {"validation": ([], [])}, "'validation' has no text"),
    ],
)
def test_arguments_that_cannot_be(labels, options, message):
    with pytest.raises(ValueError, match=message):
        bag_of_words(TEXTS, labels, **options)


def test_it_names_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.model_selection", None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[transformers\]"'):
        bag_of_words(TEXTS, LABELS)
