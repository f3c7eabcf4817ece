import pytest
import torch
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


def test_untrained_models_start_about_the_mean(tmp_path):
    settings, task = load(tmp_path, task="esol", model="gine-hsa")
    mean = torch.cat([signal.y for signal in task.train]).mean()
    bias = build_model(settings, task).head.bias.detach()
    assert abs(float(bias - mean)) < 1.0
    assert float(mean) < -1.5


def test_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "data/molecules/bbbp/raw/BBBP.csv").unlink()
    with pytest.raises(SettingsError, match=r"BBBP\.csv"):
        load(tmp_path, task="bbbp")
