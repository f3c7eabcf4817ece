import pytest
import torch

from hsa_pyg.nn.leaf_features import compile_edges
from hsa_pyg.nn.leaf_projection import LeafProjection


def test_shared_and_by_type(edges):
    x = {"word": torch.randn(5, 4), "image": torch.randn(2, 4)}
    h = compile_edges(x, edges)
    shared = LeafProjection(4, 6)
    rows = torch.cat([x["word"], x["image"]])
    expected = rows @ shared.shared.weight.t() + shared.shared.bias
    torch.testing.assert_close(shared(x, h), expected)
    torch.testing.assert_close(shared(rows, h), expected)
    typed = LeafProjection({"image": 4, "word": 4}, 6, bias=False)
    by_type = [x[n] @ typed.by_type[n].weight.t() for n in ("word", "image")]
    torch.testing.assert_close(typed(x, h), torch.cat(by_type))
    torch.testing.assert_close(typed(rows, h), torch.cat(by_type))


def test_type_names_that_modules_do_not_allow(edges):
    """Dots, and names that a module dictionary has itself."""
    x = {"web.page": torch.randn(2, 4), "keys": torch.randn(1, 4)}
    typed = LeafProjection({"web.page": 4, "keys": 4}, 6)
    assert typed.types == ["web.page", "keys"]
    assert typed(x, compile_edges(x, {})).shape == (3, 6)


def test_no_leaf_at_all():
    typed = LeafProjection({"word": 4}, 6).double()
    out = typed({}, compile_edges({}, {}, ["word"]))
    assert out.shape == (0, 6)
    assert out.dtype == torch.double


def test_a_dictionary_without_a_type_is_an_error():
    with pytest.raises(ValueError, match="'in_channels' is an empty dictionary"):
        LeafProjection({}, 6)
