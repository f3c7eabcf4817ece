import pytest

from hsa_pyg.experiments.semantic_focus.experiment import SemanticFocus
from hsa_pyg.experiments.semantic_focus.settings import (
    FocusSettings,
    complete_settings,
)

SMALL = {"train_size": 10, "val_size": 5, "length": 6, "blocks": 2, "epochs": 3}


def test_attention_flops_are_counted_for_all_that_is_computed(tmp_path):
    settings = complete_settings(FocusSettings(**SMALL))
    outcome = SemanticFocus().run(settings, 0, tmp_path / "c.pt", lambda told: None)
    # Two products forward; backward the scores again and four gradients.
    forward = 2 * 2 * 6 * 6 * 64
    backward = 5 * 2 * 6 * 6 * 64
    # Per epoch 10 are trained on, and 15 evaluated.
    each = 10 * (forward + backward) + 15 * forward
    assert outcome.attention_flops == 3 * 2 * each
    assert len(outcome.history) == 3
    assert outcome.final["val_loss"] == outcome.history[-1]["val_loss"]
    assert not outcome.facts["stopped_early"]


def test_work_counts_linear_layers_too():
    settings = complete_settings(FocusSettings(**SMALL))
    found = SemanticFocus().work(settings)
    linear = 2 * 64 * 64 * 6 * 6 * 2 * (4 * 10 + 5) * 3
    assert linear < found < 1.3 * linear


@pytest.mark.parametrize("attention", ["hsa", "hsa-topk"])
def test_hierarchies_cost_less(attention):
    flat = complete_settings(FocusSettings(length=40))
    nested = complete_settings(FocusSettings(length=40, attention=attention))
    assert SemanticFocus().work(nested) < SemanticFocus().work(flat)
