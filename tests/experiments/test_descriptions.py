from dataclasses import dataclass, fields

import pytest

from hsa_pyg.experiments.descriptions import describe_settings
from hsa_pyg.experiments.experiment import _CLASSES, find_experiment

COLOURS = ("red", "blue")
LIMITS = {"least": 1}


@pytest.mark.parametrize("name", _CLASSES)
def test_every_setting_of_an_experiment_is_described(name):
    settings = find_experiment(name).settings
    found = describe_settings(settings)
    assert list(found) == [one.name for one in fields(settings)]
    for text in found.values():
        assert text.endswith(".")
        assert "`" not in text


@dataclass
class Paint:
    """What to paint with.

    Args:
        colour: One of :data:`COLOURS`, or of
            :data:`~some.module.COLOURS`; by default
            ``"red"``.
        width: Within [0, :data:`LIMITS`]: see
            :class:`~hsa_pyg.nn.LeafReadout`.

    Note:
        brush: Of hair.
    """

    width: int = 1
    colour: str = "red"


def test_descriptions_are_plain_sentences_in_the_order_of_the_fields():
    assert describe_settings(Paint) == {
        "width": "Within [0, least]: see LeafReadout.",
        "colour": 'One of red, blue, or of red, blue; by default "red".',
    }


@dataclass
class Silent(Paint):
    """What to paint with.

    Args:
        width: In pixels.
        hue: In degrees.
    """


@dataclass
class Mute:
    width: int = 1


def test_a_field_without_a_description_is_named():
    with pytest.raises(ValueError, match=r"docstring of Silent .* see colour, hue"):
        describe_settings(Silent)
    with pytest.raises(ValueError, match=r"docstring of Mute .* see width"):
        describe_settings(Mute)
