import sys
import warnings

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_smiles as pyg_from_smiles

from hsa_pyg.converters import GROUP_ROLES, from_molecule, from_smiles

pytest.importorskip("rdkit", reason="rdkit is not installed")
from rdkit import Chem, RDLogger

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
BOND = ("atom", "bond", "atom")


def test_aspirin():
    signal = from_smiles(ASPIRIN, y=1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert signal.validate()
    plain = pyg_from_smiles(ASPIRIN)
    assert torch.equal(signal["atom"].x, plain.x)
    assert signal["atom"].x.dtype == torch.long
    assert torch.equal(signal[BOND].edge_index, plain.edge_index)
    assert torch.equal(signal[BOND].edge_attr, plain.edge_attr)
    assert signal[BOND].edge_index.size(1) == 26
    assert [GROUP_ROLES[role] for role in signal["group"].role] == [
        "chain",
        "functional_group",
        "ring",
        "functional_group",
    ]
    edge = signal["atom", "child_of", "group"].edge_index
    assert edge.tolist() == [list(range(13)), [0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3]]
    edge = signal["group", "child_of", "molecule"].edge_index
    assert edge.tolist() == [[0, 1, 2, 3], [0, 0, 0, 0]]
    assert signal.smiles == ASPIRIN
    assert signal.y.tolist() == [1.5]
    assert (signal.hierarchy.num_leaves, signal.hierarchy.max_depth) == (13, 2)


def test_salts_keep_apart_what_is_apart():
    signal = from_smiles("CC(=O)[O-].[Na+].O")
    assert signal["group"].fragment.tolist() == [0, 0, 1, 2]
    assert [GROUP_ROLES[role] for role in signal["group"].role[2:]] == ["lone_atom"] * 2


def test_single_atoms_batch_with_large_molecules():
    signals = [from_smiles("C", y=0.0), from_smiles(ASPIRIN, y=1.0)]
    assert signals[0].schema == signals[1].schema
    (batch,) = DataLoader(signals, batch_size=2)
    assert batch.validate()
    assert batch["atom"].x.shape == (14, 9)
    assert batch[0][BOND].edge_attr.shape == (0, 3)
    assert batch.smiles == ["C", ASPIRIN]


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C1CC", "wrong syntax"),
        ("not a molecule", "wrong syntax"),
        ("c1cccc1", "kekulize"),
        ("CN(C)(C)(C)C", "valence"),
    ],
)
def test_what_rdkit_cannot_read_is_named(smiles, reason, capfd):
    # PyG's from_smiles turns the log off for good.
    RDLogger.EnableLog("rdApp.error")
    with pytest.raises(
        ValueError, match=f"cannot read the SMILES '.*{reason}"
    ) as error:
        from_smiles(smiles)
    assert repr(smiles) in str(error.value)
    # The reason is in the error, and not printed as well.
    assert capfd.readouterr() == ("", "")
    # And only here: rdkit still tells others.
    Chem.MolFromSmiles(smiles)
    assert capfd.readouterr().err != ""


def test_empty_and_foreign_input_is_refused():
    with pytest.raises(ValueError, match="the SMILES '' has no atom"):
        from_smiles("")
    with pytest.raises(TypeError, match="SMILES are texts, got a NoneType"):
        from_smiles(None)
    with pytest.raises(TypeError, match="from_smiles takes texts"):
        from_molecule(ASPIRIN)
    with pytest.raises(ValueError, match="has no atom"):
        from_molecule(Chem.Mol())


def test_molecules_of_rdkit():
    molecule = Chem.MolFromSmiles(ASPIRIN)
    before = molecule.ToBinary()
    signal = from_molecule(molecule, y=1)
    other = from_smiles(ASPIRIN)
    assert torch.equal(signal["atom"].x, other["atom"].x)
    assert torch.equal(signal["group"].role, other["group"].role)
    assert signal.y.tolist() == [1]
    assert molecule.ToBinary() == before
    raw = Chem.MolFromSmiles("CC(=O)OCC1CC1", sanitize=False)
    assert len(from_molecule(raw)["group"].role) == 4
    assert len(from_molecule(Chem.AddHs(molecule))["atom"].x) == 21


def test_data_of_pyg_keeps_what_it_has():
    data = pyg_from_smiles(ASPIRIN)
    data.y = torch.tensor([[1.0, float("nan")]])
    data.pos = torch.rand(13, 3)
    data.charge = torch.rand(13)
    data.x = torch.rand(13, 4)
    before = dict(data.to_dict())
    signal = from_molecule(data)
    assert torch.equal(signal["atom"].x, data.x)
    assert torch.equal(signal["atom"].coord, data.pos)
    assert torch.equal(signal["atom"].charge, data.charge)
    assert torch.equal(signal[BOND].edge_attr, data.edge_attr)
    assert torch.equal(signal.y.nan_to_num(), data.y.nan_to_num())
    assert signal.smiles == ASPIRIN
    assert torch.equal(signal["group"].role, from_smiles(ASPIRIN)["group"].role)
    assert data.to_dict().keys() == before.keys()
    # Bonds alone will do.
    bare = Data(smiles=ASPIRIN, edge_index=data.edge_index, num_nodes=13)
    assert torch.equal(from_molecule(bare)["atom"].x, pyg_from_smiles(ASPIRIN).x)


def test_data_whose_nodes_are_other_atoms_is_refused():
    data = pyg_from_smiles("CCO")
    data.smiles = "OCC"
    with pytest.raises(ValueError, match="not the atoms of its SMILES 'OCC'"):
        from_molecule(data)
    data.smiles = "C(C)O"
    with pytest.raises(ValueError, match="not the atoms of its SMILES"):
        from_molecule(data)
    data.smiles = "CCCO"
    with pytest.raises(ValueError, match="3 nodes, but its SMILES 'CCCO' has 4 atoms"):
        from_molecule(data)
    del data.smiles
    with pytest.raises(ValueError, match="no text 'smiles'"):
        from_molecule(data)
    ids = pyg_from_smiles("CCO")
    ids.x[:, 0] -= 1  # As OGB counts elements.
    assert torch.equal(from_molecule(ids)["atom"].x, ids.x)


def test_mangled_names_are_refused_or_renamed():
    data = pyg_from_smiles("CCO")
    data.residue_index = torch.arange(3)
    with pytest.raises(ValueError, match="'residue_index' of type 'atom'"):
        from_molecule(data)
    signal = from_molecule(data, rename={"residue_index": "residue"})
    assert signal["atom"].residue.tolist() == [0, 1, 2]


def test_without_rdkit_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[chem\]"'):
        from_smiles(ASPIRIN)


def test_signals_are_saved_and_loaded_safely(tmp_path):
    torch.save(from_smiles(ASPIRIN), tmp_path / "aspirin.pt")
    loaded = torch.load(tmp_path / "aspirin.pt", weights_only=True)
    assert loaded.smiles == ASPIRIN
    assert loaded["group"].role.tolist() == [2, 1, 0, 1]
