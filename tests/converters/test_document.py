import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import (
    ROLES,
    DocumentConverter,
    EmptyDocumentError,
    PictureReader,
    from_document,
    read_text,
    train_word_tokenizer,
)
from hsa_pyg.data import unify

PROSE = "It rained, all day. We read.\r\n\r\nThen the sun\ncame out! 😀 Good."


def spans_of(signal, kind, text):
    return [text[start:stop] for start, stop in signal[kind].span.tolist()]


def num_tokens(signal):
    return len(signal["token"].x)


def test_prose_becomes_paragraphs_sentences_and_tokens():
    signal = from_document(PROSE)
    signal.validate()
    assert spans_of(signal, "sentence", PROSE) == [
        "It rained, all day.",
        "We read.",
        "Then the sun\ncame out!",
        "😀 Good.",
    ]
    assert signal["sentence", "child_of", "paragraph"].edge_index[1].tolist() == [
        *[0, 0],
        *[1, 1],
    ]
    assert spans_of(signal, "token", PROSE)[:6] == [
        *["It", "rained", ",", "all", "day", "."],
    ]


def test_all_four_levels_are_there_for_a_document_of_one_word():
    signal = from_document("word")
    assert [signal[kind].num_nodes for kind in signal.node_types] == [1, 1, 1, 1]
    assert signal.hierarchy.max_depth == 3
    assert signal["token"].pos.tolist() == [[0.0]]


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
@pytest.mark.parametrize("sentences", ["prose", "lines"])
def test_no_visible_character_of_a_document_is_lost(sentences, text):
    convert = DocumentConverter(sentences=sentences)
    if not text.strip():
        with pytest.raises(EmptyDocumentError):
            convert.text(text)
        return
    signal = convert.text(text)
    signal.validate()
    spans = signal["token"].span.tolist()
    covered = {offset for start, stop in spans for offset in range(start, stop)}
    lost = [text[offset] for offset in range(len(text)) if offset not in covered]
    assert "".join(lost).strip() == ""
    assert spans == sorted(spans)


def test_one_sentence_a_line():
    signal = from_document("a b . c d\ne\n\n\n f\n", sentences="lines")
    assert signal["sentence"].num_nodes == 3
    assert signal["paragraph"].num_nodes == 2
    assert signal["token"].num_nodes == 7


def test_ids_come_from_the_given_tokenizer_and_unknown_words_stay_as_unk():
    tokenizer = train_word_tokenizer(["good film", "good end"])
    signal = from_document("Good film!", tokenizer=tokenizer)
    assert signal["token"].x.tolist() == [tokenizer.token_to_id("good"), 1, 1]
    assert spans_of(signal, "token", "Good film!") == ["Good", "film", "!"]


def test_a_long_line_without_a_full_stop_stays_one_sentence():
    text = "word " * 50_000
    signal = from_document(text)
    assert signal["sentence"].num_nodes == 1
    assert signal["token"].num_nodes == 50_000
    assert signal["token"].pos[-1].item() == 49_999


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\u3000\u00a0", "\n" * 1000])
def test_an_empty_document_is_an_error_that_names_it(text, tmp_path):
    path = tmp_path / "void.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"Document '.*void.txt' is empty"):
        from_document(path)


def test_a_document_whose_tokenizer_gives_nothing_is_empty_too():
    with pytest.raises(EmptyDocumentError, match="none of its 3 characters"):
        from_document("a b", tokenizer=lambda texts: [([], []) for _ in texts])


def test_a_file_is_read_with_its_name_format_encoding_and_label(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("caf\xe9.\r\nnoir".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a.txt' is not utf-8: byte 0xe9 at offset 3"):
        from_document(path)
    signal = from_document(path, encoding="latin-1", y=1)
    assert signal.source == path.as_posix()
    assert signal.y.tolist() == [1]
    assert signal.y.dtype == torch.long
    text = read_text(path, "latin-1")
    assert spans_of(signal, "token", text) == ["café", ".", "noir"]


def test_byte_order_mark_is_no_part_of_the_first_token(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfthe end")
    with_mark = from_document(path)
    assert with_mark["token"].span.tolist() == [[0, 3], [4, 7]]
    assert torch.equal(with_mark["token"].x, from_document("the end")["token"].x)


def test_a_string_is_a_file_if_there_is_one_and_text_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("from the file")
    assert num_tokens(from_document("a.txt")) == 3
    assert num_tokens(from_document("hello.")) == 2
    with pytest.raises(FileNotFoundError, match=r"There is no file 'b.txt'"):
        from_document("b.txt")
    assert num_tokens(DocumentConverter().text("b.txt")) == 3
    with pytest.raises(FileNotFoundError, match=r"DocumentConverter\(\).text"):
        from_document("my review.txt")
    with pytest.raises(IsADirectoryError, match="from_documents"):
        from_document(str(tmp_path))
    with pytest.raises(IsADirectoryError, match=r"use DocumentConverter\(\).text"):
        from_document(".")
    assert num_tokens(DocumentConverter().text(".")) == 1


def test_the_format_is_told_from_the_suffix_unless_it_is_given(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<p>one")
    assert num_tokens(from_document(page)) == 1
    assert num_tokens(from_document(page, format="text")) == 4
    with pytest.raises(ValueError, match="given as 'docx'"):
        from_document("text", format="docx")
    with pytest.raises(ValueError, match="is a file and no string"):
        from_document("text", format="epub")


def test_texts_can_be_unified_with_pages():
    convert = DocumentConverter()
    page = convert.text("<h1>One</h1><p>Two. Three.", format="html")
    plain = convert.text("Two. Three.")
    assert page.schema.nodes == convert.schema("html").nodes
    assert plain.schema.nodes == convert.schema("text").nodes
    plain, page = unify([plain, page])
    assert plain.schema == page.schema
    assert page.schema.edges == convert.schema("html").edges
    batch = Batch.from_data_list([plain, page])
    batch.validate()
    assert page["document"].text == ["One\n\nTwo. Three."]
    first = batch[0]
    assert first["document"].text == ["Two. Three."]


def test_nodes_of_a_type_are_numbered_in_reading_order():
    signal = from_document(
        "<p>a<h1>b</h1><ul><li>c<ul><li>d<li>e</ul><li>f<p>g</ul><h2>h</h2>i<h1>j</h1>"
        "<table><tr><td>k<td>l<tr><td>m</table>",
        format="html",
    )
    for kind in ("section", "block", "paragraph", "sentence", "token"):
        starts = signal[kind].span[:, 0].tolist()
        assert starts == sorted(starts)
    roles = [ROLES[role] for role in signal["block"].role.tolist()]
    assert roles[:6] == ["list", "item", "list", "item", "item", "item"]


def test_what_is_left_out_is_told():
    signal = from_document("One two. Three four five.", max_tokens=4)
    assert signal.dropped == [("tokens beyond max_tokens", 3)]
    assert from_document("One two.").dropped == []


def test_the_text_is_kept_unless_it_is_not_wanted():
    assert from_document("One two.")["document"].text == ["One two."]
    assert "text" not in from_document("One two.", keep_text=False)["document"]


def test_pictures_are_read_unless_they_are_not_wanted(tmp_path):
    Image.new("RGB", (40, 20), "red").save(tmp_path / "red.png")
    page = tmp_path / "page.html"
    page.write_text('<p>See <img src="red.png" alt="Red."> here.')
    signal = from_document(page)
    assert signal["patch"].x.shape == (6, 3 * 16 * 16)
    assert signal["image"]["size"].tolist() == [[20, 40]]
    small = from_document(page, images=PictureReader(patch=8, channels=1))
    assert small["patch"].x.shape == (15, 64)
    words = from_document(page, images=False)
    assert "patch" not in words.node_types
    assert num_tokens(words) == num_tokens(signal) == 5
    with pytest.raises(TypeError, match="images='no' is a str"):
        from_document(page, images="no")


def test_a_page_of_pictures_alone_is_no_empty_document(tmp_path):
    Image.new("RGB", (16, 16), "red").save(tmp_path / "red.png")
    page = tmp_path / "page.html"
    page.write_text('<img src="red.png">')
    signal = from_document(page)
    assert signal.hierarchy.num_leaves == 1
    with pytest.raises(EmptyDocumentError):
        from_document(page, images=False)


def test_one_picture_in_several_places_is_stored_once(tmp_path):
    Image.new("RGB", (16, 16), "red").save(tmp_path / "red.png")
    (tmp_path / "same.png").write_bytes((tmp_path / "red.png").read_bytes())
    page = tmp_path / "page.html"
    page.write_text('<p>a<img src="red.png"><p>b<img src="same.png">')
    signal = from_document(page)
    signal.validate()
    assert signal["image"].num_nodes == 1
    assert signal["block", "shows", "image"].edge_index.tolist() == [[0, 1], [0, 0]]
    assert signal["image", "child_of", "block"].edge_index.tolist() == [[0], [0]]


def test_text_that_no_tokenizer_can_take_is_an_error():
    with pytest.raises(ValueError, match="NUL at character 1"):
        from_document("a\0b c")
    with pytest.raises(ValueError, match="lone surrogate at character 2"):
        from_document("a \ud800 b")


def test_labels_keep_their_type():
    assert from_document("a b", y=0.5).y.dtype == torch.float
    y = torch.tensor([[1, 0, 1]])
    assert torch.equal(from_document("a b", y=y).y, y)
    assert "y" not in from_document("a b")


def test_max_tokens_must_be_positive():
    assert num_tokens(from_document("a b c d", max_tokens=3)) == 3
    with pytest.raises(ValueError, match="max_tokens must be positive, but is 0"):
        from_document("a b", max_tokens=0)


def test_documents_batch_through_the_stock_loader_and_come_back():
    texts = ["one", PROSE, "Two words.\n\nMore.", "one"]
    signals = [from_document(text, y=index) for index, text in enumerate(texts)]
    batch = next(iter(DataLoader(signals, batch_size=4)))
    assert batch.hierarchy.num_trees == 4
    assert batch.y.tolist() == [0, 1, 2, 3]
    for index, signal in enumerate(signals):
        again = batch[index]
        for kind in signal.node_types:
            assert torch.equal(again[kind].span, signal[kind].span)
        for kind in signal.edge_types:
            assert torch.equal(again[kind].edge_index, signal[kind].edge_index)
        assert torch.equal(again["token"].x, signal["token"].x)


def test_signals_pickle():
    signal = pickle.loads(pickle.dumps(from_document(PROSE)))
    signal.validate()
    assert signal["token"].x.tolist() == from_document(PROSE)["token"].x.tolist()


@pytest.mark.parametrize("wrong", [None, 3, ["a.txt"]])
def test_what_is_no_document_is_named(wrong):
    with pytest.raises(TypeError, match=f"path of a file, got {type(wrong).__name__}"):
        from_document(wrong)
