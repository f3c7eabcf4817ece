"""Checks that settings of all experiments pass."""

from types import SimpleNamespace

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checks import check_least, check_name


def test_a_name_that_is_not_known_brings_the_nearest():
    assert check_name("model", "flat", iter(["hsa", "flat"])) is None
    with pytest.raises(SettingsError, match="no model 'flta'; did you mean 'flat'"):
        check_name("model", "flta", iter(["hsa", "flat"]))
    with pytest.raises(SettingsError, match="no precision 32; did you mean '32'"):
        check_name("precision", 32, ["32", "bf16"])


def test_numbers_have_bounds_where_they_are_given():
    settings = SimpleNamespace(heads=1, k=None)
    assert check_least(settings, {"heads": 1, "k": 2}) is None
    with pytest.raises(SettingsError, match=r"^heads must be at least 2, got 1\.$"):
        check_least(settings, {"k": 2, "heads": 2})
    for value in (float("nan"), float("inf")):
        with pytest.raises(SettingsError, match=f"lr must be a finite .* got {value}"):
            check_least(SimpleNamespace(lr=value), {"lr": 0})
