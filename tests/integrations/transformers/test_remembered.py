"""A tree a text, whatever batch it comes in."""

from dataclasses import replace

import pytest
import torch

from hsa_pyg import SignalHierarchy
from hsa_pyg.integrations.transformers import (
    Clusters,
    Remembered,
    Tokens,
    Ward,
    Windows,
    make_builder,
    nested_forest,
    original_text,
    replace_attention,
)

TEXTS = ("cttttttttttc", "ctttttc", "ctc", "tttttttttttttt")


def batch_of(scored, numbers, *, left=False, extra=0):
    """The tokens of some of ``TEXTS``, padded; the same queries and keys every time."""
    width = max(len(TEXTS[number]) for number in numbers) + extra
    pad = str.rjust if left else str.ljust
    padded = [pad(TEXTS[number], width, ".") for number in numbers]
    tokens = scored(*padded)
    one = [scored(TEXTS[number], seed=number) for number in numbers]
    ids = torch.zeros(tokens.kept.shape, dtype=torch.long)
    for row, number in enumerate(numbers):
        ids[row, tokens.kept[row]] = 100 * number + torch.arange(len(TEXTS[number]))
    return replace(
        tokens,
        input_ids=ids,
        q=torch.cat([x.q for x in one]),
        k=torch.cat([x.k for x in one]),
    )


def trees_of(hierarchy, tokens):
    """Every text's tree as sets of the places of its tokens, by node."""
    text = tokens.text_of_leaf
    first = [int((text < number).sum()) for number in range(tokens.kept.size(0))]
    below = {node: set() for node in range(hierarchy.num_nodes)}
    for row, leaf in enumerate(hierarchy.leaves.tolist()):
        node, number = leaf, int(text[row])
        while node >= 0:
            below[node].add((number, row - first[number]))
            node = int(hierarchy.parent[node])
    return sorted(sorted(held) for held in below.values() if held)


class Counting:
    """A builder that knows what it was asked."""

    def __init__(self, builder, needs_scores=True):
        self.builder, self.needs_scores = builder, needs_scores
        self.asked = []

    def __call__(self, tokens):
        self.asked.append(tokens.kept.size(0))
        return self.builder(tokens)


@pytest.mark.parametrize(
    "spec", ["clusters:0.4", "segments:0.4", "energy:0.5", "ward:4", "window:2"]
)
def test_the_forest_is_the_builders_own(scored, spec):
    builder = make_builder(spec)
    remembered = Remembered(spec)
    for numbers in ([0, 1, 2, 3], [3, 1], [2, 0, 0, 1], [1]):
        for left in (False, True):
            tokens = batch_of(scored, numbers, left=left, extra=2)
            expected, got = builder(tokens), remembered(tokens)
            assert trees_of(got, tokens) == trees_of(expected, tokens)
            assert got.num_trees == expected.num_trees == len(numbers)
    assert remembered.misses == 4
    assert remembered.hits == 2 * (4 + 2 + 4 + 1) - 4


def test_a_batch_asks_for_its_new_texts_together(scored):
    counting = Counting(Ward(4))
    remembered = Remembered(counting)
    remembered(batch_of(scored, [0, 1]))
    remembered(batch_of(scored, [3, 0, 2, 3]))
    remembered(batch_of(scored, [2, 1]))
    assert counting.asked == [2, 2]
    assert (remembered.misses, remembered.hits, len(remembered)) == (4, 4, 4)


def test_one_text_keeps_its_nodes_as_they_were(scored):
    tokens = batch_of(scored, [0])
    assert torch.equal(Remembered(Ward(3))(tokens).parent, Ward(3)(tokens).parent)


def test_trees_by_scores_are_of_a_layer(scored):
    counting = Counting(Clusters(0.4))
    remembered = Remembered(counting)
    tokens = batch_of(scored, [0, 1])
    for layer in (2, 5, 2, 5):
        remembered(replace(tokens, layer=layer))
    assert counting.asked == [2, 2]
    assert len(remembered) == 4
    plain = Counting(Windows((2,), repeat=True), needs_scores=False)
    remembered = Remembered(plain)
    assert not remembered.needs_scores
    for layer in (2, 5):
        remembered(replace(tokens, layer=layer))
    assert plain.asked == [2]


def test_special_tokens_tell_texts_apart(scored):
    remembered = Remembered("window:2")
    tokens = batch_of(scored, [1])
    inside = replace(tokens, special=torch.zeros_like(tokens.special))
    assert remembered(tokens).parent.tolist() != remembered(inside).parent.tolist()
    assert remembered.misses == 2


def test_the_texts_used_last_are_kept(scored):
    remembered = Remembered("window:2", size=2)
    for number in (0, 1, 0, 2):
        remembered(batch_of(scored, [number]))
    assert (remembered.misses, remembered.hits, len(remembered)) == (3, 1, 2)
    remembered(batch_of(scored, [0]))
    assert remembered.hits == 2
    remembered(batch_of(scored, [1]))  # was the one used longest ago
    assert remembered.misses == 4
    # A batch of more texts than are kept is built all the same.
    tokens = batch_of(scored, [0, 1, 2, 3])
    expected = trees_of(make_builder("window:2")(tokens), tokens)
    assert trees_of(remembered(tokens), tokens) == expected
    assert len(remembered) == 2


def test_forgotten_when_asked(scored):
    remembered = Remembered("ward:4")
    tokens = batch_of(scored, [0, 1])
    first = remembered(tokens)
    changed = replace(tokens, k=torch.randn_like(tokens.k))
    assert torch.equal(remembered(changed).parent, first.parent)
    remembered.clear()
    assert (len(remembered), remembered.hits, remembered.misses) == (0, 0, 0)
    assert trees_of(remembered(changed), tokens) == trees_of(Ward(4)(changed), tokens)
    assert trees_of(remembered(changed), tokens) != trees_of(first, tokens)


def test_texts_without_tokens(scored):
    tokens = batch_of(scored, [0, 1])
    kept = tokens.kept.clone()
    kept[1] = False
    rows = tokens.text_of_leaf == 0
    alone = replace(
        tokens,
        kept=kept,
        special=tokens.special & kept,
        q=tokens.q[rows],
        k=tokens.k[rows],
    )
    remembered = Remembered("ward:4")
    forest = remembered(alone)
    assert (forest.num_trees, forest.num_leaves) == (2, 12)
    assert (remembered.misses, remembered.hits) == (1, 0)
    nothing = replace(alone, kept=kept & False, special=kept & False)
    assert remembered(nothing).num_leaves == 0


def test_nodes_that_a_builder_numbers_in_its_own_way(scored):
    """Roots last, an empty node, and the second text before the first."""

    def builder(tokens: Tokens) -> SignalHierarchy:
        count = tokens.text_of_leaf.numel()
        parent = torch.cat([count + 1 - tokens.text_of_leaf, torch.full((3,), -1)])
        mask = torch.arange(count + 3) < count
        parent[count + 2] = count
        return SignalHierarchy.from_parents(parent, mask)

    tokens = batch_of(scored, [1, 2])
    forest = Remembered(builder)(tokens)
    assert forest.leaf_tree.tolist() == tokens.text_of_leaf.tolist()
    assert forest.num_empty == 1


def test_what_is_no_forest_of_the_tokens_is_refused(scored):
    tokens = batch_of(scored, [0, 1])

    def joined(tokens: Tokens) -> SignalHierarchy:
        count = int(tokens.kept.sum())
        parent = torch.tensor([count] * count + [-1])
        return SignalHierarchy.from_parents(parent)

    with pytest.raises(ValueError, match="joined tokens of different texts"):
        Remembered(joined)(tokens)
    with pytest.raises(ValueError, match="gave 0 leaves for 19 tokens"):
        Remembered(lambda t: nested_forest(replace(t, kept=t.kept & False), []))(tokens)
    with pytest.raises(TypeError, match="must return a SignalHierarchy, got int"):
        Remembered(lambda _: 3)(tokens)


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"size must be an integer, got 2\.5"):
        Remembered("ward:4", size=2.5)
    with pytest.raises(ValueError, match="size must be 1 or more trees, got 0"):
        Remembered("ward:4", size=0)
    with pytest.raises(ValueError, match="is not known"):
        Remembered("oak")
    assert repr(Remembered("window:2", 7)).endswith("repeat=True), size=7)")


def test_by_name():
    remembered = make_builder("remembered:clusters:0.25")
    assert isinstance(remembered, Remembered)
    assert remembered.builder == Clusters(0.25)
    with pytest.raises(ValueError, match="needs the model's tokenizer"):
        make_builder("remembered:sentences")


@pytest.mark.parametrize("spec", ["clusters:0.3", "window:3"])
def test_a_model_gives_the_same_and_searches_once(tiny, texts, spec):
    bert = tiny("Bert")
    expected = replace_attention(bert, [1, 3], spec)(**texts).last_hidden_state
    again = tiny("Bert")
    remembered = Remembered(spec)
    replace_attention(again, [1, 3], remembered)
    for _ in range(2):
        out = again(**texts).last_hidden_state
        kept = texts["attention_mask"].bool()
        torch.testing.assert_close(out[kept], expected[kept])
    layers = 2 if spec.startswith("clusters") else 1
    assert remembered.misses == 3 * layers
    # One text of the batch, without its padding.
    alone = {"input_ids": texts["input_ids"][1:2, :8]}
    torch.testing.assert_close(again(**alone).last_hidden_state[0], expected[1, :8])
    assert remembered.misses == 3 * layers


def test_a_causal_model(tiny, texts):
    ids = {"input_ids": texts["input_ids"]}
    clips = tiny("CLIPText"), tiny("CLIPText")
    for clip, spec in zip(clips, ("window:4", "remembered:window:4"), strict=True):
        replace_attention(clip, "all", spec, tie_queries=False)
    first, second = (clip(**ids).last_hidden_state for clip in clips)
    torch.testing.assert_close(first, second)


def test_texts_of_the_same_ids_are_told_apart_by_what_they_are(tiny, texts):
    """Ids can stand for texts of unlike sentences: tokenizers drop line breaks."""
    seen = []

    def builder(tokens: Tokens) -> SignalHierarchy:
        seen.append(tuple(tokens.text))
        return nested_forest(tokens, [])

    bert = replace_attention(tiny("Bert"), "all", Remembered(builder))
    ids = {"input_ids": texts["input_ids"][:1]}
    spans = torch.arange(21)[None, :, None].expand(1, 21, 2)
    for text in ("one", "two", "one"):
        with original_text(bert, [text], spans):
            bert(**ids)
    assert seen == [("one",), ("two",)]


def test_models_of_images_have_no_ids(tiny):
    vit = replace_attention(tiny("ViT"), "all", "remembered:quadtree")
    with pytest.raises(ValueError, match=r"was given images, no input_ids.*Quadtree"):
        vit(pixel_values=torch.randn(1, 3, 32, 32))
    bert = replace_attention(tiny("Bert"), "all", "remembered:window:4")
    with pytest.raises(ValueError, match="was given embeddings, no input_ids"):
        bert(inputs_embeds=torch.randn(1, 5, 32))


def with_texts(tokens, *texts, step=1):
    """Tokens of ``step`` characters each, of texts that are given."""
    width = tokens.kept.size(1)
    spans = [[(step * i, step * (i + 1)) for i in range(width)] for _ in texts]
    return replace(tokens, text=list(texts), offsets=spans)


def test_new_texts_are_built_of_what_is_theirs(scored):
    seen = []

    def builder(tokens: Tokens) -> SignalHierarchy:
        seen.append(tokens)
        return nested_forest(tokens, [])

    builder.needs_scores = True
    trees = Remembered(builder)
    trees(with_texts(batch_of(scored, [0]), "old"))
    both = with_texts(batch_of(scored, [0, 1]), "old", "new")
    both.offsets[1][0] = (7, 8)
    trees(both)
    alone, (_, found) = batch_of(scored, [1]), seen
    assert torch.equal(found.q, alone.q)
    assert torch.equal(found.k, alone.k)
    assert torch.equal(found.input_ids, both.input_ids[1:])
    assert torch.equal(found.special, both.special[1:])
    assert (found.text, found.offsets) == (["new"], both.offsets[1:])


def test_texts_whose_tokens_stand_elsewhere_are_others(scored):
    trees, tokens = Remembered("window:2"), batch_of(scored, [0])
    for step in (1, 2, 1):
        trees(with_texts(tokens, "two sentences. or one", step=step))
    assert (trees.misses, trees.hits) == (2, 1)
