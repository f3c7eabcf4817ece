import pytest
import torch

from hsa_pyg.converters import ATOM_SIZES, from_smiles
from hsa_pyg.nn import CategoryEmbedding, HSATransformer


def test_rows_are_sums_of_one_vector_a_category():
    embedding = CategoryEmbedding([3, 2], 8)
    table = embedding.embedding.weight
    out = embedding(torch.tensor([[0, 1], [2, 0]]))
    assert torch.equal(out, torch.stack([table[0] + table[4], table[2] + table[3]]))
    assert repr(embedding) == "CategoryEmbedding([3, 2], 8)"
    assert embedding(torch.empty(0, 2, dtype=torch.long)).shape == (0, 8)
    assert list(embedding.state_dict()) == ["embedding.weight"]


def test_sums_have_norm_one():
    embedding = CategoryEmbedding([500] * 9, 64)
    generator = torch.Generator().manual_seed(0)
    norms = (
        embedding(torch.randint(500, (2000, 9), generator=generator)).square().sum(1)
    )
    torch.testing.assert_close(norms.mean(), torch.tensor(1.0), atol=0.05, rtol=0.0)


def test_wrong_ids_and_sizes_are_named():
    embedding = CategoryEmbedding([3, 2], 8)
    for ids in ([[0, 2]], [[3, 0]], [[0, -1]]):
        with pytest.raises(IndexError, match="row 0 has the id"):
            embedding(torch.tensor(ids))
    with pytest.raises(ValueError, match="rows of 2 category ids are wanted"):
        embedding(torch.zeros(4, 3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"got float32 \[4, 2\]"):
        embedding(torch.zeros(4, 2))
    for sizes in ([], [3, 0]):
        with pytest.raises(ValueError, match="at least one id"):
            CategoryEmbedding(sizes, 8)


def test_a_model_learns_from_atoms():
    molecule = from_smiles("CC(=O)Oc1ccccc1C(=O)O")
    assert len(ATOM_SIZES) == molecule["atom"].x.size(1) == 9
    model = HSATransformer.from_schema(
        molecule.schema, 2, channels=8, heads=2, vocab_sizes={"atom": ATOM_SIZES}
    )
    loss = torch.nn.functional.cross_entropy(model(molecule), torch.tensor([1]))
    loss.backward()
    assert model.encoder.encoders["atom"].embedding.weight.grad.abs().sum() > 0
