from dataclasses import asdict, fields

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.experiment import (
    find_experiment,
    nearest,
    with_later_settings,
)
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings


@pytest.mark.parametrize(("task", "usual"), [("sst", False), ("imdb", None)])
def test_settings_that_came_later_are_as_nobody_asks_for_them(task, usual):
    settings = LearningSettings(task=task, features="glove", lr=0.5, expansion=3)
    whole = asdict(complete_settings(settings))
    older = {key: value for key, value in whole.items() if key != "each_phrase"}
    assert with_later_settings("learning", older) == {**older, "each_phrase": usual}
    assert list(with_later_settings("learning", older)) == list(whole)
    assert with_later_settings("learning", whole) == whole
    assert with_later_settings("another", older) == older
    # Settings that are no more, and values that are refused by now, are told of.
    for other in ({**older, "depths": 3}, {**older, "task": "reviews"}):
        assert with_later_settings("learning", other) == other


def test_an_experiment_is_found_by_its_name():
    found = find_experiment("semantic-focus")
    assert found.name == "semantic-focus"
    assert found.complete(found.settings()).task == "even-pairs"
    with pytest.raises(SettingsError, match="did you mean 'semantic-focus'"):
        find_experiment("semantics-focus")


FOCUS = [one.name for one in fields(find_experiment("semantic-focus").settings)]


@pytest.mark.parametrize(
    ("key", "close"),
    [
        ("epoch", "'epochs'"),
        ("batchsize", "'batch_size'"),
        ("size", "'train_size', 'val_size' or 'batch_size'"),
        ("max_sequence_length", "'length' or 'max_length'"),
    ],
)
def test_a_name_is_offered_that_is_spelt_alike_or_has_the_words(key, close):
    assert nearest(key, FOCUS) == f"; did you mean {close}?"


# "samples" is no "dropout", whatever letters they share; "k" is no word of "blocks".
@pytest.mark.parametrize("key", ["samples", "zzz", "stocks", "", "--"])
def test_nothing_is_guessed_where_nothing_is_close(key):
    assert nearest(key, FOCUS) == f"; known are {', '.join(FOCUS)}."
