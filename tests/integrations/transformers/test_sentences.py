"""Trees of sentences and paragraphs, from ids or from the text itself."""

import pytest
import tokenizers
import torch
import transformers

from hsa_pyg.integrations.transformers import (
    Sentences,
    Tokens,
    nested_forest,
    original_text,
    replace_attention,
)

TEXTS = [
    "The film was long. I liked it! It cost 3.5 dollars.\n\nThe end was bad. Go see.",
    "Good film.",
]


@pytest.fixture(scope="module")
def tokenizer():
    """Word pieces, lower case, as BERT's: "dollars" has two."""
    words = "the film was long i liked it cost dollar ##s end bad go see good . ! , 3 5"
    vocabulary = {
        word: number
        for number, word in enumerate(f"[PAD] [UNK] [CLS] [SEP] {words}".split())
    }
    model = tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]")
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = tokenizers.normalizers.BertNormalizer()
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    backend.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", 3), ("[CLS]", 2)
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


def encode(tokenizer, texts):
    return tokenizer(
        texts, padding=True, return_offsets_mapping=True, return_tensors="pt"
    )


def seen(encoded, **given):
    kept = encoded["attention_mask"].bool()
    special = (encoded["input_ids"] == 2) | (encoded["input_ids"] == 3)
    return Tokens(kept, special & kept, input_ids=encoded["input_ids"], **given)


def words(tokenizer, encoded, hierarchy):
    """The trees as nested lists of tokens."""
    ids = encoded["input_ids"][encoded["attention_mask"].bool()].tolist()
    word = dict(
        zip(
            hierarchy.leaves.tolist(), tokenizer.convert_ids_to_tokens(ids), strict=True
        )
    )
    children = {}
    for node, parent in enumerate(hierarchy.parent.tolist()):
        children.setdefault(parent, []).append(node)

    def below(node):
        if node in word:
            return word[node]
        found = [below(child) for child in children[node]]
        leaves = all(child in word for child in children[node])
        return " ".join(found) if leaves else found

    return [below(root) for root in children[-1]]


def test_sentences_and_paragraphs_of_the_text_itself(tokenizer):
    encoded = encode(tokenizer, TEXTS)
    spans = encoded["offset_mapping"].tolist()
    forest = Sentences()(seen(encoded, text=TEXTS, offsets=spans))
    assert words(tokenizer, encoded, forest) == [
        [
            "[CLS]",
            "[SEP]",
            ["the film was long .", "i liked it !", "it cost 3 . 5 dollar ##s ."],
            ["the end was bad .", "go see ."],
        ],
        "[CLS] good film . [SEP]",
    ]


def test_sentences_of_what_the_ids_stand_for(tokenizer):
    encoded = encode(tokenizer, TEXTS)
    forest = Sentences(tokenizer)(seen(encoded))
    assert words(tokenizer, encoded, forest) == [
        [
            "[CLS]",
            "[SEP]",
            "the film was long .",
            "i liked it !",
            "it cost 3 . 5 dollar ##s .",
            "the end was bad .",
            "go see .",
        ],
        "[CLS] good film . [SEP]",
    ]


def test_sentences_of_a_pair_do_not_reach_across(tokenizer):
    ids = tokenizer("good film. go see. the end was bad.")["input_ids"]
    ids = torch.tensor([[*ids[:7], 3, *ids[7:]]])  # a separator in between
    encoded = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    forest = Sentences(tokenizer)(seen(encoded))
    # The second has one sentence, whose tokens are children of the root.
    assert words(tokenizer, encoded, forest) == [
        [
            *["[CLS]", "[SEP]", "the", "end", "was", "bad", ".", "[SEP]"],
            "good film .",
            "go see .",
        ]
    ]


def test_a_splitter_of_ones_own(tokenizer):
    encoded = encode(tokenizer, ["good film go see"])

    def halves(text):
        middle = text.index("go ")
        return [(0, middle), (middle, len(text))]

    forest = Sentences(tokenizer, halves)(seen(encoded))
    assert words(tokenizer, encoded, forest) == [
        ["[CLS]", "[SEP]", "good film", "go see"]
    ]


def test_a_text_without_tokens(tokenizer):
    encoded = encode(tokenizer, TEXTS)
    encoded["attention_mask"][1] = 0
    forest = Sentences(tokenizer)(seen(encoded))
    assert (forest.num_roots, forest.num_empty) == (2, 1)


@pytest.mark.parametrize(
    ("vocabulary", "pieces"),
    [
        (["Ġthe", "Ġfilm", ".", "ĠGood"], ["Ġthe", "Ġfilm", ".", "ĠGood", "Ġfilm"]),
        (["▁the", "▁film", ".", "▁Good"], ["▁the", "▁film", ".", "▁Good", "▁film"]),
        (
            ["the</w>", "film", ".</w>", "Good</w>"],
            ["the</w>", "film", ".</w>", "Good</w>", "film"],
        ),
    ],
)
def test_vocabularies_that_mark_words_otherwise(vocabulary, pieces):
    numbers = {word: number for number, word in enumerate(vocabulary)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, "."))
    if vocabulary[0].startswith("Ġ"):
        backend.decoder = tokenizers.decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    ids = torch.tensor([[numbers[piece] for piece in pieces]])
    kept = torch.ones_like(ids).bool()
    forest = Sentences(fast)(Tokens(kept, ~kept, input_ids=ids))
    assert forest.parent[:5].diff().ne(0).tolist() == [False, False, True, False]


def model_for(tokenizer):
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_attention_heads=4,
        num_hidden_layers=2,
        intermediate_size=64,
    )
    return transformers.BertModel(config).eval()


def test_a_model_attends_by_sentences(tokenizer):
    model = model_for(tokenizer)
    encoded = encode(tokenizer, TEXTS)
    spans = encoded.pop("offset_mapping")
    before = model(**encoded).last_hidden_state
    replace_attention(model, hierarchy="sentences", tokenizer=tokenizer)
    decoded = model(**encoded).last_hidden_state
    with original_text(model, TEXTS, spans):
        original = model(**encoded).last_hidden_state
    assert not decoded[0].equal(original[0])  # paragraphs
    torch.testing.assert_close(decoded[1, :5], before[1, :5], atol=1e-5, rtol=0)
    assert model(**encoded).last_hidden_state.equal(decoded)


def test_missing_or_wrong_text_is_an_error(tokenizer):
    model = model_for(tokenizer)
    encoded = encode(tokenizer, TEXTS)
    spans = encoded.pop("offset_mapping")
    with pytest.raises(ValueError, match="not replaced"), original_text(model, [], []):
        pass
    replace_attention(model, hierarchy=Sentences())
    with pytest.raises(ValueError, match="original_text"):
        model(**encoded)
    with (
        pytest.raises(ValueError, match="texts are 1 but offsets are for 2"),
        original_text(model, TEXTS[:1], spans),
    ):
        pass
    with (
        original_text(model, TEXTS, spans[:, :5]),
        pytest.raises(ValueError, match="of the very batch"),
    ):
        model(**encoded)


def test_texts_within_texts_and_of_another_batch(tiny):
    seen = []

    def build(tokens):
        seen.append(tokens.text)
        return nested_forest(tokens, [])

    model = replace_attention(tiny("Bert"), [1], build)
    ids, spans = torch.tensor([[5, 6, 7]]), [[(0, 1), (1, 2), (2, 3)]]
    with original_text(model, ["abc"], spans):
        with original_text(model, ["xyz"], spans):
            model(ids)
        model(ids)
        with pytest.raises(ValueError, match="of the very batch"):
            model(ids.expand(2, -1))
        with pytest.raises(ValueError, match="of the very batch"):
            model(ids[:, :2])
    model(ids)
    assert seen == [["xyz"], ["abc"], None]
    for given, offsets in (("abc", spans), (["abc"], None)):
        with (
            pytest.raises(TypeError, match="return_offsets_mapping=True"),
            original_text(model, given, offsets),
        ):
            pass
