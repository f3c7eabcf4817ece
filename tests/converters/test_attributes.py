import numpy
import pytest
import torch

from hsa_pyg.converters.attributes import as_column, attribute_name, common_columns


@pytest.mark.parametrize(
    ("values", "dtype", "shape"),
    [
        ([1, 2], torch.long, (2,)),
        ([1, 2.5], torch.float, (2,)),
        ([True, False], torch.bool, (2,)),
        ([True, 2], torch.float, (2,)),
        ([[1, 2], (3, 4)], torch.long, (2, 2)),
        ([torch.ones(3), numpy.zeros(3)], torch.float, (2, 3)),
        ([numpy.float64(1), 2], torch.float, (2,)),
        ([torch.ones(2, dtype=torch.bfloat16)], torch.float, (1, 2)),
    ],
)
def test_numbers_become_a_tensor(values, dtype, shape):
    column = as_column(values)
    assert column.dtype == dtype
    assert column.shape == shape


@pytest.mark.parametrize(
    "values",
    [
        [1, "a"],
        [[1], [1, 2]],
        [None],
        [{}],
        [1j],
        [10**30],
        [["a"]],
        [b"x"],
        [[[1], 2]],
    ],
)
def test_what_makes_no_column_is_none(values):
    assert as_column(values) is None


def test_strings_are_a_list():
    assert as_column(["a", "b"]) == ["a", "b"]


def test_names_are_identifiers():
    names = [3, "x", "two words", "é", ("a", 1), "", "class", "_private"]
    assert [attribute_name(name, ["x"]) for name in names] == [
        "attribute_3",
        "attribute_x",
        "two_words",
        "é",
        "a_1",
        "attribute_",
        "class",
        "private",
    ]


def test_what_is_left_out_is_said():
    rows = [
        {"a": 1, "residue_index": 1, "b": 1, "1": 1, 1: 1, "c": 1, "d": {}},
        {"a": 2, "residue_index": 1, "1": 1, 1: 1, "c": None, "d": {}},
    ]
    columns, dropped = common_columns(rows, [])
    assert list(columns) == ["a", "attribute_1"]
    assert dropped == [
        "'residue_index' (PyG mangles names like this; rename it)",
        "'b' (1 of 2 have it)",
        "1 (another attribute has the name 'attribute_1' too)",
        "'c' (1 of 2 have it)",
        "'d' (not all numbers or tensors of one shape, or strings)",
    ]
