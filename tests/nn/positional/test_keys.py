import pytest
import torch

from hsa_pyg.nn import KeyValuePosition, SetPosition


def test_a_key_has_one_vector_of_norm_one():
    position = KeyValuePosition(500, 256)
    eps = position(torch.tensor([4, 2, 4]))
    assert torch.equal(eps[0], eps[2])
    assert not torch.equal(eps[0], eps[1])
    norms = position(torch.arange(500)).square().sum(1)
    torch.testing.assert_close(norms.mean(), torch.tensor(1.0), atol=0.02, rtol=0.0)


def test_keys_are_checked():
    position = KeyValuePosition(3, 4)
    with pytest.raises(ValueError, match=r"got torch.float32 of shape \(2,\)"):
        position(torch.ones(2))
    with pytest.raises(ValueError, match=r"got torch\.bool"):
        position(torch.tensor([True, False]))
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"key {wrong} in row 1 .* keys, 0 to 2"):
            position(torch.tensor([0, wrong]))


def test_a_set_has_no_positions():
    assert torch.equal(SetPosition(4)(torch.randn(3, 2)), torch.zeros(3, 4))
