import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.data import NestedSignal
from hsa_pyg.experiments.learning.nesting import renest
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from tests.experiments.learning.tiny_data import SCHEMA, two_paragraphs


def nested(**settings):
    complete = complete_settings(LearningSettings(**settings))
    (signal,), schema = renest([two_paragraphs()], SCHEMA, complete)
    assert signal.validate()
    return signal, schema


def brackets(signal):
    """The tokens in brackets, a pair around each inner node."""
    hierarchy = signal.hierarchy
    leaf = {
        int(node): int(x)
        for node, x in zip(hierarchy.leaves, signal["token"].x, strict=True)
    }
    place = {}
    for kind, (start, stop) in hierarchy.node_slices.items():
        for i in range(stop - start):
            pos = signal[kind].get("pos")
            place[start + i] = 0.0 if pos is None else float(pos[i])

    def write(node):
        if node in leaf:
            return leaf[node]
        below = [i for i, p in enumerate(hierarchy.parent.tolist()) if p == node]
        return [write(child) for child in sorted(below, key=place.get)]

    return write(int(hierarchy.roots[0]))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [[[0, 1], [2], []], [[3, 4, 5], [6]]]),
        ({"tree": "flat"}, [0, 1, 2, 3, 4, 5, 6]),
        ({"tree": "windows", "windows": [3]}, [[0, 1, 2], [3, 4, 5], [6]]),
        (
            {"tree": "windows", "windows": [2, 2]},
            [[[0, 1], [2, 3]], [[4, 5], [6]]],
        ),
        ({"depth": 1}, [0, 1, 2, 3, 4, 5, 6]),
        ({"depth": 2}, [[0, 1, 2], [3, 4, 5, 6]]),
        # The empty sentence is gone.
        ({"depth": 3}, [[[0, 1], [2]], [[3, 4, 5], [6]]]),
        ({"group": 2}, [[[[0, 1], [2]]], [[3, 4, 5], [6]]]),
    ],
)
def test_the_tree_is_the_one_asked_for(settings, expected):
    signal, schema = nested(**settings)
    assert brackets(signal) == expected
    assert signal.schema.nodes.keys() == schema.nodes.keys()
    assert signal.y.tolist() == [1]


def test_a_random_tree_has_the_own_shape_in_every_run():
    own, other, again = two_paragraphs(), *(nested(tree="random")[0] for _ in range(2))
    assert torch.equal(own.hierarchy.parent, other.hierarchy.parent)
    assert sorted(other["token"].x.tolist()) == list(range(7))
    assert other["token"].x.tolist() != list(range(7))
    assert torch.equal(other["token"].x, again["token"].x)
    # The signal itself is left alone.
    assert own["token"].x.tolist() == list(range(7))


def test_leaves_of_several_types_keep_their_tree():
    signal = NestedSignal()
    signal["document"].num_nodes = 1
    for kind in ("token", "image"):
        signal[kind].x = torch.zeros(1, 2)
        signal[kind, "child_of", "document"].edge_index = torch.zeros(2, 1).long()
    complete = complete_settings(LearningSettings(tree="flat"))
    with pytest.raises(
        SettingsError, match=r"\['token', 'image'\].*leaves of one type"
    ):
        renest([signal], signal.schema, complete)
