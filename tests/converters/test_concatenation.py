import copy
import io

import pytest
import torch
from PIL import Image
from torch_geometric.loader import DataLoader

from hsa_pyg import NestedSignal
from hsa_pyg.converters import (
    concat,
    from_brackets,
    from_document,
    from_image,
    from_nested,
)
from hsa_pyg.data import unify, union_schema
from hsa_pyg.hierarchy import CHILD_OF
from hsa_pyg.loader import DataLoader as SignalLoader


def text(words=2, y=None, source="a.txt"):
    signal = NestedSignal()
    signal["document"].num_nodes = 1
    signal["word"].x = torch.arange(words)
    signal["word"].pos = torch.arange(words).float().view(-1, 1)
    signal["word", CHILD_OF, "document"].edge_index = torch.stack(
        [torch.arange(words), torch.zeros(words, dtype=torch.long)]
    )
    signal["word", "before", "word"].edge_index = torch.tensor([[0], [1]])
    signal["word", "before", "word"].weight = torch.tensor([float(words)])
    signal.source = source
    if y is not None:
        signal.y = torch.tensor([y])
    return signal


def picture():
    signal = NestedSignal()
    signal["image"].num_nodes = 1
    signal["patch"].x = torch.ones(4, 3)
    signal["patch"].pos = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    signal["patch", CHILD_OF, "image"].edge_index = torch.tensor(
        [[0, 1, 2, 3], [0] * 4]
    )
    return signal


def test_rows_and_edges_stand_behind_one_another():
    item = concat({"title": text(2), "body": text(3), "photo": picture()})
    assert item.validate()
    assert item["word"].x.tolist() == [0, 1, 0, 1, 2]
    assert item["word", CHILD_OF, "document"].edge_index.tolist() == [
        [0, 1, 2, 3, 4],
        [0, 0, 1, 1, 1],
    ]
    before = item["word", "before", "word"]
    assert before.edge_index.tolist() == [[0, 2], [1, 3]]
    assert before.weight.tolist() == [2, 3]
    assert item["document", CHILD_OF, "item"].edge_index.tolist() == [[0, 1], [0, 0]]
    assert item["image", CHILD_OF, "item"].edge_index.tolist() == [[0], [0]]
    assert item.hierarchy.num_leaves == 9
    assert item.hierarchy.num_roots == 1
    assert item.parts == ["title", "body", "photo"]
    assert item.part_source == ["a.txt", "a.txt", None]
    assert "pos" not in item["document"]


def test_the_signals_themselves_do_not_change():
    signals = [text(), picture(), from_nested([1, 2])]
    before = [copy.deepcopy(signal.to_dict()) for signal in signals]
    concat(signals, "sequence")
    for signal, known in zip(signals, before, strict=True):
        assert str(signal.to_dict()) == str(known)


@pytest.mark.parametrize(
    ("domain", "attribute", "documents", "images"),
    [
        ("sequence", "pos", [[0], [2]], [[1]]),
        ("key_value", "key", [0, 2], [1]),
        ("grid", "pos", [[0, 0], [1, 1]], [[0, 1]]),
    ],
)
def test_domains_give_the_roots_their_places(domain, attribute, documents, images):
    places = [(0, 0), (0, 1), (1, 1)] if domain == "grid" else None
    item = concat([text(), picture(), text()], domain, places=places)
    assert item.validate()
    assert item["document"][attribute].tolist() == documents
    assert item["image"][attribute].tolist() == images
    assert attribute not in item["item"]


def test_names_have_the_same_keys_whoever_is_absent():
    whole = concat({"title": text(), "photo": picture()}, "key_value")
    part = concat({"title": None, "photo": picture()}, "key_value")
    assert whole["image"].key.tolist() == part["image"].key.tolist() == [1]
    assert whole.part_source == ["a.txt", None]
    listed = concat([picture()], "key_value", names=["photo"], keys=["body", "photo"])
    assert listed["image"].key.tolist() == [1]
    with pytest.raises(ValueError, match="name 'photo' at names is not in keys"):
        concat({"photo": picture()}, "key_value", keys=["body"])


def test_items_of_unlike_parts_form_a_data_set():
    items = [
        concat({"title": text(), "photo": picture()}, "sequence", y=0),
        concat({"title": text(3), "photo": None}, "sequence", y=1),
    ]
    schema = union_schema(items)
    first, second = (
        concat({"title": text(n), "photo": photo}, "sequence", y=y, schema=schema)
        for n, photo, y in ((2, picture(), 0), (3, None, 1))
    )
    assert second["patch"].x.shape == (0, 3)
    batch = next(iter(DataLoader([first, second], batch_size=2)))
    assert batch.validate()
    assert batch.hierarchy.num_trees == 2
    again = batch[1]
    assert again.parts == ["title", "photo"]
    assert again["word"].x.tolist() == [0, 1, 2]
    file = io.BytesIO()
    torch.save(second, file)
    file.seek(0)
    assert torch.load(file, weights_only=True).y.tolist() == [1]


def test_items_without_any_part_of_a_kind_form_a_data_set():
    """What no part of an item has is listed as None for each, as for one part."""
    figure = concat({"photo": picture(), "caption": text()}, parent="figure")
    items = [
        concat({"title": text(), "photo": picture(), "figure": None}),
        concat({"title": None, "photo": picture(), "figure": None}),
        concat({"title": None, "photo": None, "figure": figure}),
    ]
    assert "part_source" not in items[1]
    first, second, third = unify(items)
    assert second.part_source == second.part_parts == [None] * 3
    assert second.parts == ["title", "photo", "figure"]
    assert first.part_source == ["a.txt", None, None]
    assert third.part_parts == [None, None, ["photo", "caption"]]
    assert "part_source" not in items[1]
    for order in ([0, 1, 2], [1, 2, 0]):
        batch = next(iter(SignalLoader([items[i] for i in order], batch_size=3)))
        assert batch.validate()
        assert batch[order.index(1)].part_source == [None] * 3
    named, plain = picture(), picture()
    named.part_source = ["a.txt"]
    with pytest.raises(ValueError, match="sample 1 has no attribute 'part_source'"):
        unify([named, plain])  # not compositions


def test_compositions_compose():
    news = [concat({"title": text(), "body": text(3)}, "key_value") for _ in range(2)]
    page = concat(news, "sequence")
    assert page.validate()
    assert page["item"].num_nodes == 3
    assert page["item"].pos.tolist() == [[0], [1], [0]]
    assert page["document"].key.tolist() == [0, 1, 0, 1]
    assert page["item", CHILD_OF, "item"].edge_index.tolist() == [[0, 1], [2, 2]]
    assert page.hierarchy.max_depth == 3
    assert page.part_parts == [["title", "body"]] * 2
    mixed = concat([text(), *news], "sequence", parent="site")
    assert mixed.validate()
    assert mixed["document"].pos.tolist() == [[0], [0], [0], [0], [0]]
    assert mixed["document"].key.tolist() == [0, 0, 1, 0, 1]
    assert mixed["item"].pos.tolist() == [[1], [2]]


def test_the_root_need_not_be_the_first_of_its_type():
    news = [concat([text(), text()]) for _ in range(2)]
    inner = concat(news)
    assert inner["item", CHILD_OF, "item"].edge_index.tolist() == [[0, 1], [2, 2]]
    outer = concat([inner, inner])
    outer.validate()
    parents = outer["item", CHILD_OF, "item"].edge_index
    assert parents.tolist() == [[0, 1, 3, 4, 2, 5], [2, 2, 5, 5, 6, 6]]
    assert outer.hierarchy.num_roots == 1


def test_trees_of_the_other_converters_compose():
    item = concat(
        {
            "review": from_brackets("(3 (2 It) (4 works))"),
            "facts": from_nested({"a": 1}),
        },
        "key_value",
        y=3,
    )
    assert item.validate()
    assert item["phrase"].key.tolist() == [0]
    assert item["record"].key.tolist() == [1]
    assert item["word"].text == ["It", "works"]


def test_documents_and_pictures_make_a_news_item():
    news = concat(
        {
            "headline": from_document("A storm"),
            "body": from_document("It rained. We read.\n\nThen the sun came."),
            "image": from_image(torch.rand(3, 40, 30), patch=16),
            "caption": from_document("A picture."),
        },
        "key_value",
        y=1,
    )
    assert news.validate()
    assert news["document"].key.tolist() == [0, 1, 3]
    assert news["image"].key.tolist() == [2]
    assert len(news["document"].text) == 3
    assert news.hierarchy.num_leaves == news["token"].x.size(0) + 6


def test_labels_are_given_or_equal():
    assert concat([text(y=1), picture(), text(y=1)]).y.tolist() == [1]
    assert concat([text(y=1), text(y=0)], y=0.5).y.tolist() == [0.5]
    with pytest.raises(ValueError, match=r"'0' has the label .*1.*, signal '2' .*0"):
        concat([text(y=1), picture(), text(y=0)])
    scored = text()
    scored.score = torch.tensor([0.5])
    assert concat([scored, text()]).part_score == [[0.5], None]


def without_pos():
    signal = text()
    del signal["word"].pos
    return signal


def with_wide_patches():
    signal = picture()
    signal["patch"].x = torch.ones(4, 5)
    return signal


def with_grid_root():
    signal = picture()
    signal["image"].pos = torch.zeros(1, 2)
    return signal


def with_two_roots():
    signal = text()
    signal["document"].num_nodes = 2
    return signal


def with_scalar(value):
    signal = text()
    signal["word"].unit = value
    return signal


@pytest.mark.parametrize(
    ("signals", "options", "message"),
    [
        ([text(), without_pos()], {}, "'1': 2 rows of type 'word' have no 'pos', which "
         "signal '0' has"),
        ([without_pos(), text()], {}, "'0': 2 rows of type 'word' have no 'pos', which "
         "signal '1' has"),
        ([picture(), with_wide_patches()], {}, r"signal '1': attribute 'x' of type "
         r"'patch' is \[n, 5\].*\[n, 3\].* signal '0'"),
        ([with_grid_root()], {"domain": "sequence"}, "'0': 'pos' of type 'image' is"),
        ([with_two_roots()], {}, "'0' has 2 roots instead of one"),
        ([NestedSignal()], {}, "'0' has 0 roots instead of one"),
        ([with_scalar(1), with_scalar(2)], {}, "'unit' of type 'word' has no rows and"),
        ([], {}, "None of the 0 signals"),
        ([None], {}, "None of the 1 signals"),
        ([text()], {"names": ["a", "b"]}, "1 signals and the names"),
        ([text()] * 2, {"names": ["a", "a"]}, "give each signal a name of its own"),
        ({"a": text()}, {"names": ["a"]}, "given by name have their names"),
        ([text()], {"domain": "list"}, "domain='list' is not one of"),
        ([text()], {"domain": "grid"}, "needs places=, one"),
        ([text()], {"parent": "word"}, "parent='word' is a type of leaves"),
        ([from_nested([])], {"parent": "sequence"}, "with the attribute 'key_name'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(signals, options, message):
    with pytest.raises(ValueError, match=message):
        concat(signals, **options)


def test_values_without_rows_stay_if_they_are_equal():
    assert concat([with_scalar("cm"), with_scalar("cm")])["word"].unit == "cm"


def test_wrong_objects_are_named():
    with pytest.raises(TypeError, match="got a NestedSignal"):
        concat(text())
    with pytest.raises(TypeError, match="Signal 'a' is a int"):
        concat({"a": 3})
    batch = next(iter(DataLoader([text(), text()], batch_size=2)))
    with pytest.raises(TypeError, match="is a batch of several"):
        concat([batch])
    broken = text()
    broken["word", CHILD_OF, "document"].edge_index = torch.tensor([[0, 0], [0, 0]])
    with pytest.raises(ValueError, match=r"Signal '0': .*parent"):
        concat([broken])
    broken["word", CHILD_OF, "document"].edge_index = torch.tensor([[0, 9], [0, 0]])
    with pytest.raises(ValueError, match=r"Signal 'b': edge 1 .*node 9 of type 'word'"):
        concat({"a": text(), "b": broken})


def test_a_cycle_is_found_in_the_composition():
    broken = text()
    broken["loop"].num_nodes = 2
    broken["loop", CHILD_OF, "loop"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"type 'loop'.*own ancestor"):
        concat([broken, picture()]).validate()


def test_a_leaf_alone_composes():
    leaf = NestedSignal()
    leaf["word"].x = torch.tensor([3])
    item = concat({"a": leaf, "b": leaf})
    item.validate()
    assert item["word", CHILD_OF, "item"].edge_index.tolist() == [[0, 1], [0, 0]]


def test_schema_complete_signals_compose():
    photo = picture()
    photo.source = "b.png"
    first, second = unify([text(), photo])
    item = concat([first, second], "sequence")
    assert item.validate()
    assert item["document"].pos.tolist() == [[0]]
    assert item["image"].pos.tolist() == [[1]]


def test_a_page_with_a_picture_composes_with_a_picture(tmp_path):
    Image.new("RGB", (40, 20), "red").save(tmp_path / "red.png")
    (tmp_path / "page.html").write_text("<p>See <img src=red.png>.")
    page = from_document(tmp_path / "page.html")
    item = concat({"page": page, "cover": from_image(torch.rand(3, 64, 64))})
    item.validate()
    assert item["image"].num_nodes == 2
    assert item["image"].scaled.tolist() == [[20, 40], [64, 64]]
    assert item["image"].pos.tolist() == [[0], [0]]
    assert item["patch"].x.size(0) == 6 + 16


@pytest.mark.parametrize("name", ["y", "parts", "part_source"])
def test_types_are_not_called_as_attributes_of_the_whole(name):
    signal = text()
    signal.source = "a.txt"
    with pytest.raises(ValueError, match=f"'{name}' has the name.*another parent="):
        concat([signal], parent=name)
    inside = NestedSignal()
    inside[name].x = torch.tensor([3])
    with pytest.raises(ValueError, match=f"'{name}' has the name.*rename the type"):
        concat([signal, inside])


def test_a_label_is_not_shared_with_the_part_it_comes_from():
    signal = text()
    signal.y = torch.tensor([1])
    concat([signal]).y.add_(5)
    assert signal.y.tolist() == [1]


def test_a_part_without_members_is_a_node_of_its_own():
    with pytest.raises(ValueError, match=r"signal\[kind\]\.num_nodes = 1"):
        concat([], "sequence", parent="basket")
    empty = NestedSignal()
    empty["basket"].num_nodes = 1
    item = NestedSignal()
    item["item"].x = torch.randn(1, 3)
    full = concat([item, item], "sequence", parent="basket")
    order = concat([full, empty], "sequence", parent="order")
    assert order["basket"].num_nodes == 2
    assert order.hierarchy.num_leaves == 2


def test_what_is_no_signal_is_told_how_to_become_one():
    with pytest.raises(TypeError, match=r"'a' is a Tensor, no .*: make .*converters"):
        concat({"a": torch.ones(3)})
