"""Checks that settings of all experiments pass."""

from types import SimpleNamespace

import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checks import check_heads, check_least, check_name


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


def test_heads_fit_the_channels():
    def check(model, heads, channels):
        check_heads(SimpleNamespace(model=model, heads=heads, channels=channels))

    check("performer", 4, 8)
    check("hsa", 4, 4)
    check("performer", None, 4)
    check("performer", 4, None)
    with pytest.raises(SettingsError, match=r"^3 heads do not divide 8 channels\.$"):
        check("hsa", 3, 8)
    for model in ("performer", "gine-performer"):
        with pytest.raises(SettingsError, match=r": 4 heads leave one of 4\.$"):
            check(model, 4, 4)
