import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.experiment import find_experiment, nearest


def test_an_experiment_is_found_by_its_name():
    found = find_experiment("semantic-focus")
    assert found.name == "semantic-focus"
    assert found.complete(found.settings()).task == "even-pairs"
    with pytest.raises(SettingsError, match="did you mean 'semantic-focus'"):
        find_experiment("semantics-focus")


def test_the_nearest_name_is_offered_or_all():
    assert nearest("epoch", ["epochs", "blocks"]) == "; did you mean 'epochs'?"
    assert nearest("zzz", ["epochs", "blocks"]) == "; known are epochs, blocks."
