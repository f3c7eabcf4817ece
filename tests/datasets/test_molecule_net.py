import csv
import gzip
import itertools
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import MoleculeNet
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets import MoleculeNetTrees

Chem = pytest.importorskip("rdkit.Chem", reason="rdkit is not installed")

MOLECULES = Path(__file__).parents[2].parent / "shared" / "data" / "molecules"
needs_tables = pytest.mark.skipif(
    not MOLECULES.exists(), reason=f"the tables are not at {MOLECULES}"
)
# Rows of the tables, and the column of the SMILES in their headers.
TABLES = {
    "esol": (1128, "smiles"),
    "freesolv": (642, "smiles"),
    "lipo": (4200, "smiles"),
    "bbbp": (2039, "smiles"),
    "bace": (1513, "mol"),
    "hiv": (41127, "smiles"),
}


def write(root, name, lines):
    raw = root / name / "raw"
    raw.mkdir(parents=True)
    (raw / f"{MoleculeNet.names[name][2]}.csv").write_text("\n".join(lines) + "\n")
    return root


def labels(dataset):
    return torch.cat([signal.y for signal in dataset])


def lines_of(path, first):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        return [line.rstrip("\n") for line in itertools.islice(file, first)]


@needs_tables
@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_read(tmp_path, name):
    size, column = TABLES[name]
    (source,) = (MOLECULES / name / "raw").iterdir()
    with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
        assert sum(1 for _ in file) == size + 1
    # Every tenth molecule or so is enough to convert.
    lines = lines_of(source, 301)
    dataset = MoleculeNetTrees(write(tmp_path, name, lines), name, log=False)
    rows = list(csv.DictReader(lines))
    assert len(dataset) + len(dataset.refused) == len(rows) == 300
    refused = {entry["row"] for entry in dataset.refused}
    kept = [row for number, row in enumerate(rows, 1) if number not in refused]
    for signal, row in zip(dataset, kept, strict=True):
        assert signal.smiles == row[column]
        atoms = Chem.MolFromSmiles(row[column]).GetNumAtoms()
        edge = signal["atom", "child_of", "group"].edge_index
        assert edge[0].tolist() == list(range(atoms))
        assert signal["atom"].x.size(0) == atoms
        assert signal.y.shape == (1, 1)
        assert f"{signal.y.item():.4g}" in {
            f"{float(value):.4g}" for key, value in row.items() if key != column
        }
    (batch,) = DataLoader(dataset, batch_size=300)
    assert batch.validate()


@needs_tables
def test_a_compressed_table_is_read_as_it_is(tmp_path):
    raw = tmp_path / "hiv" / "raw"
    raw.mkdir(parents=True)
    lines = lines_of(MOLECULES / "hiv" / "raw" / "HIV.csv.gz", 51)
    with gzip.open(raw / "HIV.csv.gz", "wt") as file:
        file.write("\n".join(lines))
    dataset = MoleculeNetTrees(tmp_path, "HIV", log=False)
    assert len(dataset) == 50
    assert repr(dataset) == "MoleculeNetTrees(HIV, 50)"


@needs_tables
def test_it_agrees_with_pyg_and_leaves_its_files_alone(tmp_path):
    shutil.copytree(MOLECULES / "freesolv", tmp_path / "freesolv")
    plain = MoleculeNet(tmp_path, "freesolv")
    trees = MoleculeNetTrees(tmp_path, "FreeSolv", log=False)
    assert len(trees) == len(plain) == 642
    for signal, data in zip(trees, plain, strict=True):
        assert signal.smiles == data.smiles
        assert torch.equal(signal.y, data.y)
        assert torch.equal(signal["atom"].x, data.x)
        edge = signal["atom", "bond", "atom"]
        assert torch.equal(edge.edge_index, data.edge_index)
        assert torch.equal(edge.edge_attr, data.edge_attr)
    assert len(MoleculeNet(tmp_path, "freesolv")) == 642


def test_what_rdkit_refuses_is_counted_and_named(tmp_path):
    bad = ["c1cccc1", "C1CC", "CN(C)(C)(C)C", "xyz"]
    lines = ["logS,smiles", "1.5,CCO", *(f"0,{smiles}" for smiles in bad), "", "2,C"]
    with pytest.warns(UserWarning, match="4 of 6 molecules") as caught:
        dataset = MoleculeNetTrees(write(tmp_path, "esol", lines), "esol", log=False)
    (warning,) = [w for w in caught if "molecules" in str(w.message)]
    assert "row 2: rdkit cannot read the SMILES 'c1cccc1'" in str(warning.message)
    assert "and 1 more" in str(warning.message)
    assert labels(dataset).tolist() == [[1.5], [2.0]]
    assert [entry["smiles"] for entry in dataset.refused] == bad
    # The list is there in later runs too, without the warning.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = MoleculeNetTrees(tmp_path, "esol", log=False)
    assert again.refused == dataset.refused


def test_missing_labels_are_nan(tmp_path):
    lines = ["smiles,a,b", '"CCO",1,', "C,,0", '"N[C@@H](C)C(=O)O",1,0']
    dataset = MoleculeNetTrees(write(tmp_path, "clintox", lines), "ClinTox", log=False)
    nan = torch.tensor(float("nan"))
    expected = torch.tensor([[1, nan], [nan, 0], [1, 0]])
    assert torch.equal(labels(dataset).isnan(), expected.isnan())
    assert torch.equal(labels(dataset).nan_to_num(9), expected.nan_to_num(9))


def test_quoted_names_with_commas_do_not_shift_the_columns(tmp_path):
    lines = ["iupac,smiles,expt,calc", '"2,2-dimethylpropane",CC(C)(C)C,2.5,2.6']
    dataset = MoleculeNetTrees(
        write(tmp_path, "freesolv", lines), "freesolv", log=False
    )
    assert dataset[0].smiles == "CC(C)(C)C"
    assert labels(dataset).tolist() == [[2.5]]


def test_rows_of_another_form_are_named(tmp_path):
    lines = ["logS,smiles", "1.5,CCO", "high,C"]
    with pytest.raises(ValueError, match=r"row 2 of '.*' is not as MoleculeNet has it"):
        MoleculeNetTrees(write(tmp_path, "esol", lines), "esol", log=False)
    with pytest.raises(ValueError, match="gave no molecule"):
        MoleculeNetTrees(write(tmp_path / "b", "esol", lines[:1]), "esol", log=False)
    with pytest.raises(ValueError, match="name='qm10' is not known"):
        MoleculeNetTrees(tmp_path, "qm10")


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_part_of_a_packed_table_is_named(tmp_path, kept):
    lines = ["smiles,activity,HIV_active", *["CCO,CI,0"] * 500]
    folder = tmp_path / "hiv" / "raw"
    folder.mkdir(parents=True)
    content = gzip.compress("\n".join(lines).encode())
    (folder / "HIV.csv.gz").write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match=r"HIV.csv.gz' is no table, or a part of one"):
        MoleculeNetTrees(tmp_path, "hiv", log=False)


def test_what_is_no_text_is_named(tmp_path):
    write(tmp_path, "esol", ["logS,smiles"])
    (path,) = (tmp_path / "esol" / "raw").iterdir()
    path.write_bytes(b"logS,smiles\n1.5,\xffCO\n")
    with pytest.raises(ValueError, match=r"csv' is no table, or a part of one"):
        MoleculeNetTrees(tmp_path, "esol", log=False)


def test_a_row_that_is_cut_off_lends_no_column(tmp_path):
    lines = ["a,logS,smiles", "1,1.5,CCO", "2.5,CC"]
    with pytest.raises(ValueError, match=r"row 2 of .* has 2 columns, but the "):
        MoleculeNetTrees(write(tmp_path, "esol", lines), "esol", log=False)


def test_filters_and_transforms_are_called(tmp_path):
    lines = ["logS,smiles", "1,CCO", "2,C", "3,CCCC"]
    write(tmp_path, "esol", lines)

    def mark(signal):
        signal.mark = torch.tensor([len(signal.smiles)])
        return signal

    dataset = MoleculeNetTrees(
        tmp_path,
        "esol",
        pre_filter=lambda signal: len(signal.smiles) > 1,
        pre_transform=mark,
        log=False,
    )
    assert [signal.mark.item() for signal in dataset] == [3, 4]
