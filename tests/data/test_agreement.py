import pytest
import torch

from hsa_pyg.data import Feature, Schema
from hsa_pyg.data.agreement import check_alike

WORD = {"x": Feature((), torch.long)}
EDGE = ("word", "child_of", "page")
PAGE = Schema({"page": {}, "word": WORD}, [EDGE], graph={"y": Feature()})


def test_equal_schemas_agree_whatever_the_order_of_their_types():
    other = Schema({"word": WORD, "page": {}}, [EDGE], graph={"y": Feature()})
    check_alike([PAGE, other, PAGE])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Schema({"page": {}, "word": WORD}, graph=PAGE.graph), "0 has edge type"),
        (Schema({"page": {}, "word": WORD}, [EDGE]), "'y' of the whole sample is in"),
        (
            Schema({**PAGE.nodes, "row": {}}, [EDGE], PAGE.graph),
            "sample 2 has type 'row', which sample 0 lacks",
        ),
        (
            Schema({"page": {"key": Feature()}, "word": WORD}, [EDGE], PAGE.graph),
            "attribute 'key' of type 'page' is in sample 2 but not in sample 0",
        ),
        (
            Schema(PAGE.nodes, [EDGE], {"y": Feature((3,))}),
            r"\[n\] of float32 in sample 0 but \[n, 3\] of float32 in sample 2",
        ),
    ],
)
def test_the_first_unlike_sample_and_the_difference_are_named(other, message):
    with pytest.raises(ValueError, match=message):
        check_alike([PAGE, PAGE, other])
