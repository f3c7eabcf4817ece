"""The function behind the attention interface: weights, errors, compilation."""

import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.analysis.attention import MAX_LEAVES
from hsa_pyg.integrations.transformers import (
    Windows,
    make_builder,
    replace_attention,
    restore_attention,
)


@pytest.mark.parametrize("tie_queries", [True, False])
def test_weights_are_what_the_layer_attends_with(tie_queries, tiny, texts):
    model = tiny("Bert", attn_implementation="eager")
    seen = {}
    attention = model.encoder.layer[1].attention.self
    attention.value.register_forward_hook(lambda m, args, v: seen.update(v=v))
    attention.register_forward_hook(lambda m, args, found: seen.update(y=found[0]))
    replace_attention(model, [1], "window:3", tie_queries=tie_queries)
    found = model(**texts, output_attentions=True)
    assert [tuple(x.shape) for x in found.attentions] == [(3, 4, 21, 21)] * 4
    theta = found.attentions[1]
    v = seen["v"].view(3, 21, 4, 8).transpose(1, 2)
    y = (theta @ v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(y, seen["y"], atol=1e-5, rtol=1e-5)
    kept = texts["attention_mask"].bool()
    sums = kept[:, None].expand(-1, 4, -1).float()
    torch.testing.assert_close(theta.sum(-1), sums)


def test_weights_of_one_family_are_those_of_softmax(tiny, texts):
    model = tiny("Bert", attn_implementation="eager")
    before = model(**texts, output_attentions=True).attentions
    replace_attention(model, hierarchy="flat")
    after = model(**texts, output_attentions=True).attentions
    kept = texts["attention_mask"].bool()
    for one, other in zip(before, after, strict=True):
        rows = kept[:, None].expand(-1, 4, -1)
        torch.testing.assert_close(other[rows], one[rows], atol=1e-5, rtol=0)


def test_weights_beside_layers_that_give_none_are_refused(tiny, texts):
    model = replace_attention(tiny("Bert"), [1], "window:3")
    with pytest.raises(NotImplementedError, match=r"run 'sdpa'.*eager"):
        model(**texts, output_attentions=True)
    model = replace_attention(tiny("Bert"), "all", "window:3")
    assert len(model(**texts, output_attentions=True).attentions) == 4


@pytest.mark.parametrize("layers", ["all", [1, 2]])
def test_weights_that_the_configuration_asks_for(layers, tiny, texts):
    model = tiny("Bert", attn_implementation="eager")
    model.config.output_attentions = True
    replace_attention(model, layers, "window:3")
    assert [x.shape[1:] for x in model(**texts).attentions] == [(4, 21, 21)] * 4
    assert not model(**texts, output_attentions=False).attentions


def test_texts_packed_in_one_row_are_refused(tiny, texts):
    packed = torch.block_diag(torch.ones(9, 9), torch.ones(12, 12)).bool()
    for layers in ("all", [1]):
        model = replace_attention(tiny("Bert"), layers)
        with pytest.raises(NotImplementedError, match="hides more than padding"):
            model(texts["input_ids"], attention_mask=packed.expand(3, 1, 21, 21))


def test_weights_of_many_tokens_are_refused(tiny):
    model = replace_attention(tiny("Bert", max_position_embeddings=3000))
    ids = torch.randint(5, 97, (1, MAX_LEAVES + 1))
    with pytest.raises(ValueError, match="attention matrix"):
        model(ids, output_attentions=True)


def test_a_mask_that_hides_more_than_padding_is_refused(tiny, texts):
    band = torch.ones(21, 21).tril(3).triu(-3).expand(3, 1, -1, -1).bool()
    for layers in ("all", [1]):
        model = replace_attention(tiny("Bert"), layers)
        with pytest.raises(NotImplementedError, match="hides more than padding"):
            model(texts["input_ids"], attention_mask=band)


@pytest.mark.parametrize("layers", ["all", [1]])
def test_a_mask_of_padding_written_out_is_read(layers, tiny, texts):
    model = replace_attention(tiny("Bert"), layers)
    kept = texts["attention_mask"].bool()
    expected = model(**texts).last_hidden_state[kept]
    wide = kept[:, None, None, :].expand(-1, 1, 21, -1)
    found = model(texts["input_ids"], attention_mask=wide).last_hidden_state[kept]
    assert found.equal(expected)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda tokens: 3, TypeError, "must return a SignalHierarchy, got int"),
        (
            lambda tokens: SignalHierarchy.from_parents(torch.tensor([-1, 0, 0])),
            ValueError,
            "2 leaves for 45 tokens",
        ),
        (
            lambda tokens: SignalHierarchy.from_parents(
                torch.tensor([-1] + [0] * int(tokens.kept.sum()))
            ),
            ValueError,
            "different texts in one tree",
        ),
    ],
)
def test_what_a_builder_gives_is_checked(build, error, words, tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy=build)
    with pytest.raises(error, match=words):
        model(**texts)


def test_the_implementation_set_by_hand_says_what_to_call(tiny, texts):
    model = tiny("Bert")
    model.set_attn_implementation("hsa_pyg")
    with pytest.raises(RuntimeError, match=r"replace_attention\(model\)"):
        model(**texts)


def test_a_layer_called_alone_has_no_trees(tiny):
    model = replace_attention(tiny("Bert"))
    with pytest.raises(RuntimeError, match="no trees reached layer 0"):
        model.encoder.layer[0](torch.randn(1, 5, 32))


def test_a_model_that_drops_keywords_is_named():
    import transformers

    config = transformers.SiglipVisionConfig(
        hidden_size=32,
        num_attention_heads=4,
        intermediate_size=64,
        num_hidden_layers=2,
        image_size=32,
        patch_size=8,
    )
    model = replace_attention(transformers.SiglipVisionModel(config).eval())
    with pytest.raises(RuntimeError, match=r"SiglipAttention.* keyword arguments"):
        model(torch.randn(1, 3, 32, 32))


@pytest.mark.parametrize("words", ["position_bias", "softcap", "sliding_window"])
def test_what_the_model_asks_besides_is_refused(words, tiny, texts):
    model = replace_attention(tiny("Bert"))
    with pytest.raises(NotImplementedError, match=words):
        model(**texts, **{words: 3.0})


def test_a_causal_call_is_refused(tiny, texts):
    model = replace_attention(tiny("Bert"))
    with pytest.raises(NotImplementedError, match="causal"):
        model(**texts, is_causal=True)


@pytest.mark.parametrize("layers", ["all", [1]])
def test_compiled_is_eager(layers, tiny, texts):
    """Graphs break where trees are built; what comes out is the same."""
    model = tiny("Bert", num_hidden_layers=2)
    compiled = torch.compile(model, backend="aot_eager")
    plain = model(**texts).last_hidden_state
    torch.testing.assert_close(compiled(**texts).last_hidden_state, plain)
    for hierarchy in ("window:3", "window:5"):
        replace_attention(model, layers, hierarchy)
        for length in (21, 13):
            batch = {name: x[:, :length] for name, x in texts.items()}
            kept = batch["attention_mask"].bool()
            expected = model(**batch).last_hidden_state[kept]
            found = compiled(**batch).last_hidden_state[kept]
            torch.testing.assert_close(found, expected)
        restore_attention(model)
    torch.testing.assert_close(compiled(**texts).last_hidden_state, plain)


def test_a_compiled_model_is_replaced_as_the_model_in_it(tiny, texts):
    model = tiny("Bert", num_hidden_layers=2)
    compiled = torch.compile(model, backend="aot_eager")
    replace_attention(compiled, hierarchy="window:3")
    expected = model(**texts).last_hidden_state
    torch.testing.assert_close(compiled(**texts).last_hidden_state, expected)
    restore_attention(compiled)
    assert model.config._attn_implementation == "sdpa"


def test_a_layer_costs_what_its_trees_do_and_no_square_mask(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy=make_builder("window:4"))
    shapes = []
    for layer in model.encoder.layer:
        layer.attention.self.register_forward_pre_hook(
            lambda module, args, kwargs: shapes.append(kwargs["attention_mask"].shape),
            with_kwargs=True,
        )
    model(**texts)
    assert shapes == [(3, 1, 1, 21)] * 4


def test_forests_are_built_once_a_pass_and_shared(tiny, texts):
    calls = []

    def build(tokens):
        calls.append(tokens)
        return make_builder("window:3")(tokens)

    model = replace_attention(tiny("Bert"), hierarchy=build)
    model(**texts)
    model(**texts)
    assert [call.layer for call in calls] == [0, 0]
    assert calls[0].q is None
    assert calls[0].input_ids.equal(texts["input_ids"])
    assert calls[0].kept.equal(texts["attention_mask"].bool())


def test_builders_that_need_scores_are_asked_in_each_layer(tiny, texts):
    calls = []

    class Build(Windows):
        needs_scores = True

        def __call__(self, tokens):
            calls.append(tokens)
            return super().__call__(tokens)

    model = replace_attention(tiny("Bert"), [1, 2], Build((3,)))
    model(**texts)
    kept = int(texts["attention_mask"].sum())
    assert [call.layer for call in calls] == [1, 2]
    assert [tuple(call.q.shape) for call in calls] == [(kept, 4, 8)] * 2
    assert not calls[0].k.equal(calls[1].k)


def test_special_tokens_by_place_by_id_and_not_at_all(tiny, texts):
    seen = []

    def build(tokens):
        seen.append(tokens.special.nonzero().tolist())
        return make_builder("flat")(tokens)

    texts["input_ids"][0, [3, 5]] = 98
    texts["input_ids"][1, [3, 10]] = 98  # the second is padding
    choices = ({}, {"special_ids": [98]}, {"specials": "inside"}, {"special_ids": []})
    for options in choices:
        replace_attention(model := tiny("Bert"), hierarchy=build, **options)
        model(**texts)
    assert seen[0] == [[0, 0], [0, 20], [1, 0], [1, 7], [2, 5], [2, 20]]
    assert seen[1] == [[0, 3], [0, 5], [1, 3]]
    assert seen[2] == seen[3] == []
    replace_attention(model := tiny("Roberta", eos_token_id=98), hierarchy=build)
    model(**texts)
    assert seen[4] == [[0, 3], [0, 5], [1, 3]]


def test_embeddings_in_place_of_ids(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3")
    kept = texts["attention_mask"].bool()
    expected = model(**texts).last_hidden_state[kept]
    embedded = model.embeddings.word_embeddings(texts["input_ids"])
    given = {"inputs_embeds": embedded, "attention_mask": texts["attention_mask"]}
    torch.testing.assert_close(model(**given).last_hidden_state[kept], expected)


def test_a_text_of_padding_alone_makes_no_nan_and_changes_no_other(tiny, texts):
    model = replace_attention(tiny("Bert"), hierarchy="window:3")
    expected = model(**texts).last_hidden_state
    texts["attention_mask"][1] = 0
    found = model(**texts).last_hidden_state
    assert found.isfinite().all()
    for number in (0, 2):
        torch.testing.assert_close(found[number], expected[number])
