from dataclasses import fields
from pathlib import Path

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)


def complete(**settings):
    return complete_settings(FocusSettings(**settings))


def test_the_protocol_fills_in_what_is_left_out():
    bits = complete(task="even_pairs")
    assert (bits.task, bits.blocks, bits.epochs) == ("even-pairs", 5, 100)
    assert (bits.lr, bits.decay, bits.shared_data) == (0.1, 0.9995, False)
    lists = complete(task="ListOps", epochs=7)
    assert (lists.task, lists.blocks, lists.epochs) == ("list-ops", 10, 7)
    assert (lists.lr, lists.decay, lists.shared_data) == (1.0, 0.99, True)


def test_what_plays_no_part_is_cleared():
    full = complete(k=9, width=9, num_global=1, windows=[4], nesting="windows")
    assert full == complete()
    assert (full.k, full.width, full.num_global, full.nesting) == (None,) * 4
    topk = complete(attention="topk", k=9, width=7)
    assert (topk.k, topk.width, topk.pad_multiple) == (9, None, 9)
    band = complete(attention="banded", width=9, num_global=3)
    assert (band.k, band.width, band.num_global, band.pad_multiple) == (None, 9, 3, 9)


@pytest.mark.parametrize("attention", ["hsa", "hsa-topk"])
def test_hierarchies_are_the_tree_where_there_is_one(attention):
    own = complete(task="list-ops", attention=attention)
    assert (own.nesting, own.windows, own.pad_multiple) == ("tree", [], 1)
    windows = complete(task="parity", attention=attention, windows=[5, 4])
    assert (windows.nesting, windows.windows) == ("windows", [5, 4])
    chosen = complete(task="list-ops", attention=attention, nesting="windows")
    assert (chosen.nesting, chosen.windows) == ("windows", [5])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "even-pair"}, "no task 'even-pair'; did you mean 'even-pairs'"),
        ({"attention": "top"}, "no attention 'top'; did you mean 'topk'"),
        ({"optimizer": "lion"}, "no optimizer 'lion'; known are sgd, adam"),
        ({"activation": "geluu"}, "did you mean 'gelu'"),
        ({"attention": "hsa", "nesting": "tree"}, "have no tree: use nesting=windows"),
        ({"k": 1}, "k must be at least 2, got 1"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"windows": [1]}, "windows must be at least 2 wide"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        complete(**settings)


def as_written(name):
    """The usual value of a setting as the guide writes it."""
    default = getattr(FocusSettings(), name)
    if name == "stop_after":
        return "none"
    if default is None:
        return "by attention" if name == "pad_multiple" else "by task"
    return str(default).lower()


def test_the_guide_has_every_setting_with_its_usual_value():
    text = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text()
    part = text.partition("| setting | usual |")[2].partition("\n\n")[0]
    rows = [line.split(" | ") for line in part.splitlines()[2:]]
    found = {row[0].strip("| `"): row[1] for row in rows}
    names = [one.name for one in fields(FocusSettings)]
    assert list(found) == names
    assert found == {name: as_written(name) for name in names}
