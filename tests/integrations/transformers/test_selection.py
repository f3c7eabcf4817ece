"""Selection of layers: the budget, what is measured, and what is left behind."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from hsa_pyg.integrations.transformers import replace_attention, replaced_layers
from hsa_pyg.integrations.transformers.selection import select_layers


def change(model, batch, layers, hierarchy="window:2"):
    """1 - cosine of the mean hidden states, from first principles."""
    from hsa_pyg.integrations.transformers import restore_attention

    def mean():
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None].float()
        return (hidden * mask).sum(1) / mask.sum(1)

    before = mean()
    replace_attention(model, layers, hierarchy)
    after = mean()
    restore_attention(model)
    return float((1 - torch.cosine_similarity(before, after)).mean())


def test_each_alone_then_greedily(tiny, texts):
    model = tiny("Bert")
    found = select_layers(model, [texts], 2, "window:2", progress=False)
    assert [trial.layers for trial in found.trials[:4]] == [(0,), (1,), (2,), (3,)]
    alone = [change(model, texts, [number]) for number in range(4)]
    got = [trial.change for trial in found.trials[:4]]
    assert got == pytest.approx(alone, rel=1e-3, abs=1e-7)
    best = min(range(4), key=alone.__getitem__)
    pairs = [sorted([best, other]) for other in range(4) if other != best]
    changes = [change(model, texts, pair) for pair in pairs]
    assert found.layers == pairs[min(range(3), key=changes.__getitem__)]
    assert found.change == pytest.approx(min(changes), rel=1e-3, abs=1e-7)
    assert len(found.trials) == 4 + 3
    assert 0 < found.share < found.trials[0].share < 1


def test_the_model_is_left_as_it_was(tiny, texts):
    model = tiny("Bert").train()
    model.encoder.layer[1].eval()
    before = model.embeddings.word_embeddings.weight.clone()
    select_layers(model, [texts], 1, "window:2", progress=False)
    assert model.training
    assert not model.encoder.layer[1].training
    assert replaced_layers(model) == []
    assert torch.equal(before, model.embeddings.word_embeddings.weight)
    with pytest.raises(RuntimeError, match="on purpose"):
        select_layers(model, [texts], 1, _fails, progress=False)
    assert replaced_layers(model) == []
    assert model.training


def _fails(tokens):
    raise RuntimeError("on purpose")


def test_a_budget_of_flops(tiny, texts):
    model = tiny("Bert")
    found = select_layers(model, [texts], 0.6, "ward:2", progress=False)
    assert found.share <= 0.6
    smaller = [trial for trial in found.trials if len(trial.layers) < len(found.layers)]
    assert all(trial.share > 0.6 for trial in smaller)
    with pytest.raises(ValueError, match=r"more than the budget 1\.0%"):
        select_layers(model, [texts], 0.01, "window:2", progress=False)


def test_one_family_changes_nothing(tiny, texts):
    model = tiny("Bert")
    found = select_layers(model, [texts], 4, "flat", progress=False)
    assert found.layers == [0, 1, 2, 3]
    assert abs(found.change) < 1e-5
    assert found.share == pytest.approx(1.0)


def test_logits_are_compared_by_divergence(texts):
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=32,
        num_attention_heads=4,
        intermediate_size=64,
        num_hidden_layers=2,
        vocab_size=99,
        num_labels=7,
    )
    model = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
        before = model(**texts).logits.log_softmax(-1)
    found = select_layers(model, [texts, texts], 1, "window:2", progress=False)
    replace_attention(model, found.layers, "window:2")
    with torch.no_grad():
        after = model(**texts).logits.log_softmax(-1)
    expected = (before.exp() * (before - after)).sum(-1).mean()
    assert found.change == pytest.approx(float(expected), rel=1e-3)


def test_what_is_read_may_be_chosen(tiny, texts):
    model = tiny("Bert")
    asked = []

    def first(output, batch):
        asked.append(batch)
        return output.last_hidden_state[:, 0]

    found = select_layers(model, [texts], 1, read=first, progress=False)
    assert len(asked) == 5
    assert asked[0] is texts
    assert found.change >= 0


def test_candidates_and_tries(tiny, texts):
    model = tiny("Bert")
    found = select_layers(
        model, [texts], 2, "window:2", candidates=[1, 2, 3], tries=1, progress=False
    )
    assert set(found.layers) <= {1, 2, 3}
    assert len(found.trials) == 4


def test_a_causal_tower_needs_untied_queries(tiny, texts):
    model = tiny("CLIPText")
    with pytest.raises(NotImplementedError, match="is causal"):
        select_layers(model, [texts], 1, progress=False)
    options = {"tie_queries": False, "progress": False}
    assert len(select_layers(model, [texts], 1, **options).layers) == 1


def test_the_table_and_the_progress_bar(tiny, texts, capsys):
    found = select_layers(tiny("Bert"), [texts], 2, "window:2")
    table = str(found)
    assert table.count("\n") == 2 + len(found.trials)
    assert f"chosen: {found.layers}" in table
    assert "7/7" in capsys.readouterr().err


def test_bad_input_is_refused(tiny, texts):
    model = tiny("Bert")
    for budget in (0, 5, 1.0, 0.0, -1):
        with pytest.raises(ValueError, match="budget"):
            select_layers(model, [texts], budget)
    for budget in (True, "3", None):
        with pytest.raises(TypeError, match="budget"):
            select_layers(model, [texts], budget)
    with pytest.raises(ValueError, match="batches are empty"):
        select_layers(model, [], 1)
    with pytest.raises(TypeError, match="a batch must be a mapping"):
        select_layers(model, [texts["input_ids"]], 1)
    with pytest.raises(ValueError, match="tries"):
        select_layers(model, [texts], 1, tries=0)
    with pytest.raises(ValueError, match="neither logits"):
        select_layers(_Bare(tiny("Bert")), [texts], 1, progress=False)
    broken = tiny("Bert")
    torch.nn.init.constant_(broken.encoder.layer[0].output.dense.bias, float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        select_layers(broken, [texts], 1, progress=False)
    replace_attention(model, [1])
    with pytest.raises(ValueError, match="replaced already"):
        select_layers(model, [texts], 1)


class _Bare(torch.nn.Module):
    """Gives a tuple-like object without known fields."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        return object() if self.model(**inputs) is not None else None


def test_scores_of_padding_do_not_count(texts):
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=2, vocab_size=99
    )
    model = BertForTokenClassification(config).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(100)
    found = select_layers(model, [texts], 1, "flat", progress=False)
    # One family is the original, whatever replaced layers give at padded places.
    assert all(trial.change < 1e-6 for trial in found.trials)
    # Means are over the tokens of each text, however long the batch is.
    found = select_layers(model, [texts], 1, "window:2", progress=False)
    with torch.no_grad():
        before = model(**texts).logits.log_softmax(-1)
        replace_attention(model, found.layers, "window:2")
        after = model(**texts).logits.log_softmax(-1)
    each = (before.exp() * (before - after)).sum(-1)
    kept = texts["attention_mask"].bool()
    means = [one[of].mean() for one, of in zip(each, kept, strict=True)]
    assert found.change == pytest.approx(float(sum(means) / 3), rel=1e-3)


def test_outputs_that_say_nothing_are_refused(texts):
    config = BertConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=2, vocab_size=99
    )
    config.num_labels = 1
    model = BertForSequenceClassification(config)
    with pytest.raises(ValueError, match=r"1 class, .* pass read="):
        select_layers(model, [texts], 1, progress=False)
    for read in (lambda output, batch: None, lambda output, batch: output.logits[0]):
        with pytest.raises(ValueError, match="read must give a tensor"):
            select_layers(model, [texts], 1, read=read, progress=False)
    with pytest.raises(TypeError, match=r"a single batch is \[batch\]"):
        select_layers(model, texts, 1, progress=False)
    with pytest.raises(TypeError, match="must return a SignalHierarchy"):
        select_layers(
            model,
            [texts],
            1,
            lambda tokens: None,
            read=lambda output, batch: output.logits,
            progress=False,
        )
