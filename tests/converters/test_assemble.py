from collections import Counter

import pytest
import torch

from hsa_pyg.converters import EncodedText
from hsa_pyg.converters.assemble import BEYOND, SignalBuilder, assemble, encode_blocks
from hsa_pyg.converters.blocks import ROLES, Block, Picture, parse_plain_text
from hsa_pyg.converters.document_schema import document_schema, text_schema
from hsa_pyg.converters.images import Patches
from hsa_pyg.converters.sentences import split_lines
from hsa_pyg.data import Feature, Schema


def words(texts):
    """One token a word; its id is the word's length."""
    encoded = []
    for text in texts:
        spans, start = [], 0
        for word in text.split():
            start = text.index(word, start)
            spans.append((start, start + len(word)))
            start += len(word)
        encoded.append(EncodedText([stop - start for start, stop in spans], spans))
    return encoded


TEXT = "a bb\nccc\n\n dddd eeeee\nf g\n"


def signal_of(text, encode=words, max_tokens=None):
    document = parse_plain_text(text, split_lines)
    tokens = encode_blocks(document, text, encode, "a.txt", max_tokens)
    return assemble(document, tokens, text_schema(keep_text=False))


def parents(signal, child, parent):
    child_ids, parent_ids = signal[child, "child_of", parent].edge_index
    assert child_ids.tolist() == list(range(signal[child].num_nodes))
    return parent_ids.tolist()


def test_tree_positions_and_spans_of_a_small_document():
    signal = signal_of(TEXT)
    signal.validate()
    assert parents(signal, "paragraph", "document") == [0, 0]
    assert parents(signal, "sentence", "paragraph") == [0, 0, 1, 1]
    assert parents(signal, "token", "sentence") == [0, 0, 1, 2, 2, 3, 3]
    assert signal["token"].x.tolist() == [1, 2, 3, 4, 5, 1, 1]
    assert signal["token"].pos.tolist() == [[0], [1], [0], [0], [1], [0], [1]]
    assert signal["sentence"].pos.tolist() == [[0], [1], [0], [1]]
    assert signal["paragraph"].pos.tolist() == [[0], [1]]
    assert "pos" not in signal["document"]
    for kind, expected in {
        "document": [TEXT],
        "paragraph": ["a bb\nccc", "dddd eeeee\nf g"],
        "sentence": ["a bb", "ccc", "dddd eeeee", "f g"],
        "token": TEXT.split(),
    }.items():
        assert [TEXT[i:j] for i, j in signal[kind].span.tolist()] == expected


@pytest.mark.parametrize(
    ("max_tokens", "paragraphs", "sentences", "tokens"),
    [
        (1, 1, 1, 1),
        (2, 1, 1, 2),
        (3, 1, 2, 3),
        (4, 2, 3, 4),
        (7, 2, 4, 7),
        (99, 2, 4, 7),
    ],
)
def test_truncation_keeps_the_first_tokens_and_what_is_above_them(
    max_tokens, paragraphs, sentences, tokens
):
    signal = signal_of(TEXT, max_tokens=max_tokens)
    signal.validate()
    assert signal["paragraph"].num_nodes == paragraphs
    assert signal["sentence"].num_nodes == sentences
    whole = signal_of(TEXT)["token"]
    assert torch.equal(signal["token"].x, whole.x[:tokens])
    assert torch.equal(signal["token"].span, whole.span[:tokens])


def test_a_sentence_whose_text_gives_no_token_stays_as_an_empty_node():
    def letters_only(texts):
        return words(["" if text == "***" else text for text in texts])

    signal = signal_of("a b\n***\nc\n\n***\n", letters_only)
    signal.validate()
    assert signal["sentence"].num_nodes == 4
    assert parents(signal, "token", "sentence") == [0, 0, 2]
    assert signal["sentence"].pos.tolist() == [[0], [1], [2], [0]]
    # Sentence 1, paragraph 1 and its sentence 3 have no leaf below them.
    assert signal.hierarchy.num_empty == 3
    assert signal.hierarchy.num_leaves == 3


def test_a_tree_ten_thousand_blocks_deep_needs_no_recursion():
    depth = 10_000
    block = Block("sentence", 0, 3)
    for _ in range(depth):
        block = Block("section", 0, 3, (block,))
    document = Block("document", 0, 3, (block,))
    schema = Schema(
        nodes={
            "document": {"span": Feature((2,), torch.long)},
            "section": {"span": Feature((2,), torch.long)},
            "sentence": {"span": Feature((2,), torch.long)},
            "token": {"x": Feature((), torch.long), "span": Feature((2,), torch.long)},
        },
        edges=[
            ("section", "child_of", "document"),
            ("section", "child_of", "section"),
            ("sentence", "child_of", "section"),
            ("token", "child_of", "sentence"),
        ],
    )
    tokens = encode_blocks(document, "a b", words, "deep.txt")
    signal = assemble(document, tokens, schema)
    assert signal["section"].num_nodes == depth
    assert signal.hierarchy.num_leaves == 2


def test_a_tokenizer_that_loses_a_text_or_a_span_is_an_error():
    with pytest.raises(
        ValueError, match=r"gave 3 results for 4 texts of document 'a\.txt'"
    ):
        signal_of(TEXT, lambda texts: words(texts)[1:])
    with pytest.raises(
        ValueError, match="gave 2 ids but 1 spans for characters 0 to 4"
    ):
        signal_of(TEXT, lambda texts: [EncodedText([1, 2], [(0, 1)]) for _ in texts])


@pytest.mark.parametrize(
    ("token", "span", "error", "message"),
    [
        (-5, (0, 1), ValueError, "the id -5 for characters 0 to 4 of .*'a.txt'"),
        (1.7, (0, 1), TypeError, "the id 1.7 for characters 0 to 4"),
        ("good", (0, 1), TypeError, "the id 'good' for characters 0 to 4"),
        (1, (0, 99), ValueError, r"span \(0, 99\) for characters 0 to 4 .*text, 4"),
        (1, (-1, 2), ValueError, r"span \(-1, 2\)"),
        (1, (3, 2), ValueError, r"span \(3, 2\)"),
    ],
)
def test_tokens_that_are_none_of_the_text(token, span, error, message):
    with pytest.raises(error, match=message):
        signal_of(TEXT, lambda texts: [EncodedText([token], [span]) for _ in texts])


def picture(key, rows=1, cols=1, height=16, width=16):
    x = torch.full((rows * cols, 4), float(ord(key)))
    return Picture(key, Patches(x, rows, cols, height, width))


def figure(shown, start=0):
    return Block("block", start, start, role="figure", picture=shown)


def page_of(*figures):
    return Block("page", 0, 0, figures)


def site_of(pages, tree="grid"):
    schema = document_schema(
        root="page", patch_width=4, tree=tree, website=True, keep_text=False
    )
    schema.nodes["page"] = {"span": schema.nodes["page"]["span"]}
    builder = SignalBuilder(schema, tree)
    site = builder.add_root("website")
    for page in pages:
        builder.add_document(page, {}, parent=("website", site))
    signal = builder.signal()
    signal.validate()
    return signal


def test_a_picture_of_one_page_hangs_from_the_first_figure_that_shows_it():
    signal = site_of([page_of(), page_of(figure(picture("a")), figure(picture("a")))])
    assert signal["image"].num_nodes == 1
    assert signal["image", "child_of", "block"].edge_index.tolist() == [[0], [0]]
    assert signal["image", "child_of", "website"].edge_index.numel() == 0
    assert signal["block", "shows", "image"].edge_index.tolist() == [[0, 1], [0, 0]]


def test_a_picture_of_several_pages_hangs_from_the_website():
    own, logo = picture("o", 2, 3, 20, 40), picture("l")
    pages = [page_of(figure(logo), figure(own)), page_of(figure(logo))]
    signal = site_of(pages)
    assert signal["image"]["size"].tolist() == [[16, 16], [20, 40]]
    assert signal["image", "child_of", "website"].edge_index.tolist() == [[0], [0]]
    assert signal["image", "child_of", "block"].edge_index.tolist() == [[1], [1]]
    shows = signal["block", "shows", "image"].edge_index
    assert shows.tolist() == [[0, 2, 1], [0, 0, 1]]
    patches = signal["patch", "child_of", "image"].edge_index
    assert patches.tolist() == [list(range(7)), [0] + [1] * 6]
    assert signal["patch"].x[:, 0].tolist() == [ord("l")] + [ord("o")] * 6
    grid = [[row, col] for row in range(2) for col in range(3)]
    assert signal["patch"].pos.tolist() == [[0, 0], *grid]


def test_quadrants_of_several_pictures_keep_to_their_own():
    pages = [page_of(figure(picture(key, 4, 4))) for key in "ab"]
    signal = site_of(pages, tree="quadtree")
    assert signal["quadrant"].num_nodes == 8
    quadrants = signal["quadrant", "child_of", "image"].edge_index
    assert quadrants.tolist() == [list(range(8)), [0] * 4 + [1] * 4]
    patch, quadrant = signal["patch", "child_of", "quadrant"].edge_index
    image = quadrants[1][quadrant]
    assert (signal["patch"].x[patch, 0] == image + ord("a")).all()
    assert quadrant.bincount().tolist() == [4] * 8


def test_the_picture_of_a_figure_is_its_first_child():
    words_beside = Block("paragraph", 0, 3, [Block("sentence", 0, 3)], role="alt")
    shown = figure(picture("a"))
    shown.children = [words_beside]
    document = Block("document", 0, 3, [shown])
    tokens = encode_blocks(document, "a b", words, "a.html")
    signal = assemble(document, tokens, document_schema(patch_width=4, keep_text=False))
    assert signal["image"].pos.tolist() == [[0]]
    assert signal["paragraph"].pos.tolist() == [[1]]
    assert ROLES[int(signal["paragraph"].role)] == "alt"
    assert ROLES[int(signal["block"].role)] == "figure"


def test_truncation_leaves_out_the_pictures_behind_the_last_token():
    text = "a b\nc d"
    paragraphs = [
        Block("paragraph", start, start + 3, [Block("sentence", start, start + 3)])
        for start in (0, 4)
    ]
    document = Block(
        "document",
        0,
        7,
        [
            figure(picture("a")),
            paragraphs[0],
            figure(picture("b"), 3),
            paragraphs[1],
            figure(picture("c"), 7),
        ],
    )
    schema = document_schema(patch_width=4, keep_text=False)
    for max_tokens, images in ((None, 3), (4, 3), (3, 2), (2, 1), (1, 1)):
        dropped = Counter()
        tokens = encode_blocks(document, text, words, "a.html", max_tokens, dropped)
        signal = assemble(document, tokens, schema, cut=bool(dropped))
        signal.validate()
        assert signal["image"].num_nodes == images
        left_out = 4 - len(signal["token"].x)
        assert dropped[BEYOND] == left_out
