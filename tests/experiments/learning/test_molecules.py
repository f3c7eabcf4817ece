import csv
from pathlib import Path

import pytest
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.learning.building import build_model
from hsa_pyg.experiments.learning.molecules import scaffold_split
from hsa_pyg.experiments.learning.settings import (
    GRAPH_MODELS,
    LearningSettings,
    complete_settings,
)
from hsa_pyg.experiments.learning.task import load_task
from hsa_pyg.loader import DataLoader
from tests.experiments.learning import small_sources

MOLECULES = Path(__file__).parents[3].parent / "shared" / "data" / "molecules"


def load(tmp_path, **options):
    options = {"channels": 8, "heads": 2, **options}
    settings = complete_settings(LearningSettings(**options))
    return settings, load_task(settings, tmp_path / "data", tmp_path / "cache")


@pytest.fixture(autouse=True)
def _raw(tmp_path):
    small_sources.write_molecules(tmp_path / "data")


def test_parts_share_no_scaffold(tmp_path):
    _, task = load(tmp_path, task="bbbp")
    assert (len(task.train), len(task.val), len(task.test)) == (16, 2, 2)
    scaffolds = [
        {MurckoScaffoldSmiles(signal.smiles) for signal in part}
        for part in (task.train, task.val, task.test)
    ]
    assert scaffolds[0] == {""}
    assert not scaffolds[1] & scaffolds[2]


def test_a_group_that_does_not_fit_is_passed_on():
    # Nine chains of ten are more than 80 %, but no more than 90 %; 19 of 20 are.
    chains = ["C" * n for n in range(1, 20)]
    assert scaffold_split([*chains[:9], "C1CC1"]) == ([9], list(range(9)), [])
    assert scaffold_split([*chains, "C1CC1"]) == ([19], [], list(range(19)))


def test_of_groups_of_like_size_the_last_comes_first():
    rings = ["C1CC1", "C1CCC1", "C1CCCC1", "c1ccccc1", "c1ccncc1"]
    assert scaffold_split(["CCO"] * 5 + rings) == (
        [0, 1, 2, 3, 4, 7, 8, 9],
        [6],
        [5],
    )


@pytest.mark.skipif(not MOLECULES.exists(), reason="needs the files of MoleculeNet")
def test_the_real_molecules_are_split_as_moleculenet_has_them():
    """BBBP: shares of the parts that pass the barrier, by its own splitter's rule."""
    with (MOLECULES / "bbbp" / "raw" / "BBBP.csv").open() as file:
        rows = list(csv.DictReader(file))
    parts = scaffold_split([row["smiles"] for row in rows])
    assert [len(part) for part in parts] == [1631, 204, 204]
    shares = [sum(int(rows[i]["p_np"]) for i in part) / len(part) for part in parts]
    assert shares == pytest.approx([0.822, 0.549, 0.525], abs=5e-4)


def test_a_part_of_one_class_is_refused(tmp_path):
    path = tmp_path / "data/molecules/bbbp/raw/BBBP.csv"
    lines = path.read_text().splitlines()
    alike = [line.replace(",0,", ",1,") for line in lines[-4:]]
    path.write_text("\n".join([*lines[:-4], *alike]))
    with pytest.raises(SettingsError, match=r"2 validation molecules .* one class"):
        load(tmp_path, task="bbbp")


def test_targets_are_classes_or_numbers(tmp_path):
    _, barrier = load(tmp_path, task="bbbp")
    _, water = load(tmp_path, task="esol")
    assert (barrier.kind, barrier.score, barrier.outputs) == (
        "classification",
        "roc_auc",
        2,
    )
    assert (water.kind, water.score, water.outputs) == ("regression", "rmse", 1)
    assert barrier.train[1].y.tolist() == [1]
    assert water.train[1].y.tolist() == [-0.25]


@pytest.mark.parametrize("model", [*GRAPH_MODELS, "hsa"])
def test_models_are_made_by_their_names(tmp_path, model):
    settings, task = load(tmp_path, task="bbbp", model=model)
    batch = next(iter(DataLoader(task.train, 4, schema=task.schema)))
    out = build_model(settings, task)(batch)
    assert out.shape == (4, 2)
    assert out.isfinite().all()


def test_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "data/molecules/bbbp/raw/BBBP.csv").unlink()
    with pytest.raises(SettingsError, match=r"BBBP\.csv"):
        load(tmp_path, task="bbbp")
