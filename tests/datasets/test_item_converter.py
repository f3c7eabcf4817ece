import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.converters import BadImageError, EmptyDocumentError, HashedWords
from hsa_pyg.datasets.item_converter import ItemConverter, part_texts

NAMES = ("title", "tags", "image", "caption")


@pytest.fixture(scope="module")
def convert():
    return ItemConverter(
        HashedWords(100), NAMES, phrases=("tags",), figure=("image", "caption")
    )


def parts_of(convert, *names):
    pixels = np.zeros((32, 48, 3), np.uint8)
    texts = {"title": "A bird. It flies.", "tags": "one two\nthree", "caption": "Seen."}
    return {
        name: convert.picture(pixels)
        if name == "image"
        else convert.text(texts[name], name)
        for name in names
    }


@pytest.mark.parametrize(
    "names", [NAMES, ("title",), ("image",), ("caption", "tags"), ("image", "title")]
)
def test_items_of_any_parts_have_one_schema(names, convert):
    item = convert.item(parts_of(convert, *names), "name", 2)
    assert item.validate()
    whole = convert.item(parts_of(convert, *NAMES), "name", 2)
    assert item.schema == whole.schema
    assert [*item.node_types, *item.edge_types] == [
        *whole.node_types,
        *whole.edge_types,
    ]
    batch = Batch.from_data_list([item, whole, item])
    assert batch.validate()
    assert batch[1]["token"].x.equal(whole["token"].x)
    assert (item.source, item.y.tolist()) == ("name", [2])


def test_keys_are_places_of_names(convert):
    item = convert.item(parts_of(convert, *NAMES), "name", 0)
    assert convert.keys == (*NAMES, "figure")
    assert sorted(item["document"].key.tolist()) == [0, 1, 3]
    assert item["image"].key.tolist() == [2]
    assert item["figure"].key.tolist() == [4]
    assert part_texts(item, convert.keys) == {
        "title": "A bird. It flies.",
        "tags": "one two\nthree",
        "caption": "Seen.",
    }


def test_phrases_are_lines_and_prose_is_sentences(convert):
    tags = convert.text("one. two\nthree", "tags")
    title = convert.text("One went. Two\nstayed.", "title")
    assert tags["sentence"].span.tolist() == [[0, 8], [9, 14]]
    assert title["sentence"].span.tolist() == [[0, 9], [10, 21]]


def test_what_is_empty_is_none_and_an_item_of_nothing_an_error(convert):
    assert convert.text(" \n", "title") is None
    with pytest.raises(EmptyDocumentError, match="'name' has neither text nor picture"):
        convert.item({"title": None, "image": None}, "name", 0)
    with pytest.raises(BadImageError):
        convert.picture(b"\x89PNG broken")


def test_without_a_figure_pictures_belong_to_the_item():
    convert = ItemConverter(HashedWords(9), ("image", "title"), patch=4, channels=1)
    item = convert.item({"image": convert.picture(torch.rand(9, 9))}, "name", 1)
    assert "figure" not in item.node_types
    assert item["image", "child_of", "item"].edge_index.tolist() == [[0], [0]]
    assert item["patch"].x.shape == (9, 16)
