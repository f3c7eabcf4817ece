import pytest
import torch

from hsa_pyg.data import Feature


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.rand(3, 16), Feature((16,), torch.float32)),
        (torch.tensor([1, 2]), Feature((), torch.long)),
        (torch.rand(3, 2, 5).double(), Feature((2, 5), torch.float64)),
        (torch.tensor(1.0), Feature(None, torch.float32)),
        ("title", Feature(None, "str")),
    ],
)
def test_a_feature_is_the_shape_and_dtype_of_a_row(value, expected):
    assert Feature.of(value) == expected


def test_edge_indices_count_their_rows_in_the_last_dimension():
    feature = Feature.of(torch.zeros(2, 7).long(), cat_dim=-1)
    assert feature == Feature((2,), torch.long)
    assert feature.empty(rows_last=True).shape == (2, 0)


def test_an_adjacency_matrix_has_no_rows():
    matrix = torch.eye(2).to_sparse_csr()
    assert Feature.of(matrix, cat_dim=(0, 1)) == Feature(None, torch.float32)


def test_an_empty_value_keeps_width_and_dtype():
    empty = Feature((3, 4), torch.float16).empty()
    assert (empty.shape, empty.dtype) == ((0, 3, 4), torch.float16)
    assert Feature.of(["a"]).empty() == []


def test_a_scalar_has_no_empty_value():
    with pytest.raises(ValueError, match="an int has no rows"):
        Feature.of(3).empty()


def test_text_of_a_feature_reads_as_a_shape():
    assert str(Feature((16,))) == "[n, 16] of float32"
    assert str(Feature(None, "str")) == "a str"
