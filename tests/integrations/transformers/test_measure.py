"""Measuring a replacement: accuracies, their difference, FLOPs, and bad input."""

import dataclasses
import math

import pytest
import torch
import transformers

from hsa_pyg.analysis import attention_flops
from hsa_pyg.integrations.transformers import (
    ReplacementTrials,
    Windows,
    measure_replacement,
    replace_attention,
    replaced_layers,
    restore_attention,
)


@pytest.fixture
def classifier(tiny):
    """A tiny BERT with a head of three classes that tells inputs apart."""
    torch.manual_seed(3)
    bert = tiny("Bert")
    bert.config.num_labels = 3
    model = transformers.BertForSequenceClassification(bert.config).eval()
    model.bert.load_state_dict(bert.state_dict(), strict=False)
    torch.nn.init.normal_(model.bert.pooler.dense.weight, std=0.5)
    torch.nn.init.normal_(model.classifier.weight, std=2)
    for layer in model.bert.encoder.layer:  # attention counts
        torch.nn.init.normal_(layer.attention.self.value.weight, std=0.3)
        torch.nn.init.normal_(layer.attention.output.dense.weight, std=0.3)
    return model


def inputs(samples=12, length=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 97, (samples, length), generator=generator)
    mask = (torch.arange(length) < length - torch.arange(samples)[:, None] % 5).long()
    return {"input_ids": ids, "attention_mask": mask}


def in_batches(whole, size=5):
    rows = len(whole["input_ids"])
    return [
        {key: x[at : at + size] for key, x in whole.items()}
        for at in range(0, rows, size)
    ]


def test_against_a_computation_by_hand(classifier):
    whole, layers = inputs(60), [0, 1, 3]
    labels = torch.arange(60) % 3
    with torch.no_grad():
        before = classifier(**whole).logits
        replace_attention(classifier, layers, "window:2")
        after = classifier(**whole).logits
        restore_attention(classifier)
    found = measure_replacement(
        classifier, in_batches(whole), labels, layers[::-1], "window:2", progress=False
    )
    right = [[int(x) for x in y.argmax(1) == labels] for y in (before, after)]
    moved = [b - a for a, b in zip(*right, strict=True)]
    mean = sum(moved) / 60
    variance = sum((x - mean) ** 2 for x in moved) / 59
    assert set(moved) == {-1, 0, 1}
    assert found.layers == (0, 1, 3)
    assert found.samples == 60
    assert found.accuracy_before == pytest.approx(sum(right[0]) / 60)
    assert found.accuracy_after == pytest.approx(sum(right[1]) / 60)
    assert found.change == pytest.approx(mean)
    assert found.change_error == pytest.approx(math.sqrt(variance / 60))
    same = sum(before.argmax(1) == after.argmax(1)) / 60
    assert found.agreement == pytest.approx(float(same))
    p, q = before.softmax(1), after.softmax(1)
    assert found.divergence == pytest.approx(
        float((p * (p / q).log()).sum(1).mean()), rel=1e-3
    )
    assert found.seconds_before > 0
    assert found.seconds_after > 0


@pytest.mark.parametrize("tie_queries", [True, False])
def test_one_family_changes_nothing(tie_queries, classifier):
    batches = in_batches(inputs())
    found = measure_replacement(
        classifier,
        batches,
        hierarchy="flat",
        tie_queries=tie_queries,
        progress=False,
    )
    assert 0 <= found.divergence < 1e-9
    assert found.agreement == 1
    assert found.share == found.model_share == pytest.approx(1)
    assert found.flops_before == found.flops_after
    assert found.accuracy_before is found.accuracy_after is None
    assert found.change is found.change_error is None


def test_shares_are_those_of_attention_flops(classifier):
    whole = inputs()
    hierarchies = []

    def keep(tokens):
        hierarchies.append(Windows((2, 3))(tokens))
        return hierarchies[-1]

    found = measure_replacement(
        classifier, in_batches(whole), None, [0], keep, progress=False
    )
    # The first call is the warm-up, of the first batch.
    flops = [attention_flops(x, channels=32, heads=4) for x in hierarchies[1:]]
    assert found.flops_before == pytest.approx(sum(x.softmax for x in flops) / 12)
    assert found.flops_after == pytest.approx(sum(x.hsa for x in flops) / 12)
    length = whole["attention_mask"].sum(1).double()
    assert found.flops_before == pytest.approx((4 * 32 + 4) * float((length**2).mean()))
    assert found.share == pytest.approx(found.flops_after / found.flops_before)
    assert found.model_share == pytest.approx(1 - (1 - found.share) / 4)


def test_untied_queries_pay_for_the_families_on_their_path(classifier):
    # Of 12 tokens the inner 10 form windows of 5: the root has 2 + 2 children.
    batch = {"input_ids": inputs(2, 12)["input_ids"]}
    found = measure_replacement(
        classifier, [batch], None, "all", "windows:5", tie_queries=False, progress=False
    )
    assert found.flops_after == (4 * 32 + 4) * (12 * 4 + 10 * 5)
    tied = measure_replacement(
        classifier, [batch], None, "all", "windows:5", progress=False
    )
    assert tied.flops_after == (4 * 32 + 4) * (4 * 4 + 2 * 5 * 5)


def test_builders_of_scores_are_counted_in_every_layer(classifier):
    options = {"hierarchy": "ward:2", "progress": False}
    one = measure_replacement(classifier, [inputs()], None, [2], **options)
    both = measure_replacement(classifier, [inputs()], None, [1, 2], **options)
    assert one.flops_before == both.flops_before
    assert both.share < 0.5
    assert both.model_share < one.model_share


def test_trials_share_the_original_run(classifier):
    calls = []
    handle = classifier.register_forward_hook(lambda *_: calls.append(1))
    trials = ReplacementTrials(classifier, [inputs()], progress=False)
    assert len(calls) == 2  # one to warm up
    first = trials.measure([0], "window:2")
    second = trials.measure([1], "window:2")
    again = trials.measure([0], "window:2")
    assert len(calls) == 6
    handle.remove()
    assert (first.layers, second.layers) == ((0,), (1,))
    times = {"seconds_after": 0.0}
    assert dataclasses.replace(first, **times) == dataclasses.replace(again, **times)
    with torch.no_grad():
        scores = classifier(**inputs()).logits
    torch.testing.assert_close(trials.scores, scores)
    assert trials.predictions.equal(scores.argmax(1))


def test_scores_and_predictions_of_ones_own(tiny, texts):
    seen = []

    def read(output, batch):
        seen.append(batch)
        return output.last_hidden_state[:, 0, :6]

    def decide(scores):
        return scores.argmax(1) // 2 + 10

    found = measure_replacement(
        tiny("Bert"),
        [texts],
        [10, 11, 12],
        [1],
        read=read,
        decide=decide,
        progress=False,
    )
    assert len(seen) == 2
    assert seen[0] is texts
    assert found.samples == 3
    assert 0 <= found.accuracy_after <= 1


def test_texts_reach_the_trees_and_not_the_model(classifier):
    whole = inputs(2, 6)
    spans = [[[0, 0], [0, 3], [4, 7], [8, 11], [12, 15], [0, 0]]] * 2
    batch = {**whole, "texts": ["one two six ten"] * 2, "offset_mapping": spans}
    seen = []

    def look(tokens):
        seen.append((tokens.text, tokens.offsets))
        return Windows((2,))(tokens)

    measure_replacement(classifier, [batch], None, [0], look, progress=False)
    assert seen[-1] == (batch["texts"], spans)
    for missing in ("texts", "offset_mapping"):
        half = {key: x for key, x in batch.items() if key != missing}
        with pytest.raises(ValueError, match=f"but not {missing!r}"):
            ReplacementTrials(classifier, [half], progress=False)


def test_the_model_is_left_as_it_was(classifier):
    classifier.train()
    classifier.bert.encoder.layer[1].eval()
    trials = ReplacementTrials(classifier, [inputs()], progress=False)
    first, second = (trials.measure([0], "window:2") for _ in range(2))
    assert first.divergence == second.divergence  # no dropout
    assert classifier.training
    assert not classifier.bert.encoder.layer[1].training
    with pytest.raises(RuntimeError, match="on purpose"):
        trials.measure([0, 1], _fails)
    assert replaced_layers(classifier) == []
    assert classifier.training
    assert trials.measure([0], "window:2").divergence == first.divergence


def _fails(tokens):
    raise RuntimeError("on purpose")


def test_one_sample_has_no_standard_error(classifier):
    found = measure_replacement(classifier, [inputs(1)], [0], progress=False)
    assert found.change in (-1, 0, 1)
    assert found.change_error is None


def test_progress_bars(classifier, capsys):
    measure_replacement(classifier, [inputs()], None, [1])
    shown = capsys.readouterr().err
    assert "original" in shown
    assert "layers [1]" in shown
    measure_replacement(classifier, [inputs()], None, [1], progress=False)
    assert capsys.readouterr().err == ""


def test_labels_that_do_not_fit_are_refused(classifier):
    batches = in_batches(inputs())
    with pytest.raises(ValueError, match="the batches hold 12 samples"):
        ReplacementTrials(classifier, batches, [0] * 11, progress=False)
    with pytest.raises(ValueError, match="reach from 0 to 3"):
        ReplacementTrials(classifier, batches, [0] * 11 + [3], progress=False)
    for labels in ([0.0] * 12, ["a"] * 12):
        with pytest.raises(TypeError, match="labels must be integers"):
            ReplacementTrials(classifier, batches, labels, progress=False)


def test_bad_batches_and_models_are_refused(classifier):
    with pytest.raises(ValueError, match="batches are empty"):
        ReplacementTrials(classifier, [], progress=False)
    with pytest.raises(TypeError, match="a batch must be a mapping"):
        ReplacementTrials(classifier, [inputs()["input_ids"]], progress=False)
    with pytest.raises(ValueError, match="read must not depend on the run"):
        _changing(classifier).measure([0])
    assert replaced_layers(classifier) == []
    trials = ReplacementTrials(classifier, [inputs()], progress=False)
    replace_attention(classifier, [1])
    with pytest.raises(ValueError, match="replaced already"):
        ReplacementTrials(classifier, [inputs()], progress=False)
    with pytest.raises(ValueError, match="replaced already"):
        trials.measure([0])
    assert replaced_layers(classifier) == [1]


def _changing(model):
    """Trials whose samples are cut off from the second run on."""
    rows = [12, 7]

    def read(output, batch):
        return output.logits[: rows.pop(0)]

    return ReplacementTrials(model, [inputs()], read=read, progress=False)


def test_bad_scores_are_refused(classifier, tiny, texts):
    def trials(read=None, decide=None, model=classifier, batches=None):
        batches = [inputs()] if batches is None else batches
        return ReplacementTrials(
            model, batches, read=read, decide=decide, progress=False
        )

    with pytest.raises(ValueError, match="has no logits; pass read="):
        trials(model=tiny("Bert"), batches=[texts])
    with pytest.raises(ValueError, match=r"a tensor \[batch, classes\]"):
        trials(lambda output, batch: output.logits[:, 0])
    with pytest.raises(ValueError, match="scores have 1 class"):
        trials(lambda output, batch: output.logits[:, :1])
    widths = [3, 2]

    def uneven(output, batch):
        return output.logits[:, : widths.pop()]

    with pytest.raises(ValueError, match="as many for every batch"):
        trials(uneven, batches=in_batches(inputs(), 6))
    with pytest.raises(ValueError, match="of 12 of 12 samples are not finite"):
        trials(lambda output, batch: output.logits / 0)
    with pytest.raises(ValueError, match="one prediction of each of the 12"):
        trials(decide=lambda scores: scores)
    with pytest.raises(ValueError, match="hold no samples"):
        trials(batches=[inputs()], read=lambda output, batch: output.logits[:0])


def test_each_form_is_warmed_up_once(classifier):
    trials = ReplacementTrials(classifier, [inputs()], progress=False)
    calls, passes = [], []
    classifier.register_forward_hook(lambda *_: calls.append(1))
    for tied in (True, False, False, True):
        calls.clear()
        trials.measure([0], "window:2", tie_queries=tied)
        passes.append(len(calls))
    assert passes == [2, 2, 1, 1]
