import pytest

from hsa_pyg.datasets.class_words import class_words, singular, strip_words, tells_class

WORDS = class_words(["animals", "signs_and_symbols", "Food & Drink", "People & Body"])


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("animal", ""),
        ("Animals\nlion", "lion"),
        ("signs and symbols", ""),
        ("signs_and_symbols", ""),
        ("a food chain", "a chain"),
        ("bodies\nbusybody", "busybody"),
        ("animalistic", "animalistic"),
        ("sand  and   stone", "sand  and   stone"),
        ("DRINKS!", ""),
        ("", ""),
    ],
)
def test_words_of_classes_go_and_others_stay(text, stripped):
    assert strip_words(text, WORDS) == stripped


def test_nothing_goes_without_words():
    assert strip_words("any\n thing", frozenset()) == "any\n thing"


def test_a_class_is_told_by_its_own_words():
    assert tells_class("two lion cubs, animal", "animals")
    assert not tells_class("animals", "plants")
    assert not tells_class("this and that", "signs_and_symbols")


def test_singulars():
    plural = ["arrows", "boxes", "glasses", "cherries", "bus", "gas", "class"]
    assert [singular(word) for word in plural] == [
        "arrow",
        "box",
        "glass",
        "cherry",
        "bus",
        "gas",
        "class",
    ]
