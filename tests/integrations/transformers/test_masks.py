"""From masks of every shape and kind to the tokens that are no padding."""

import pytest
import torch
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    eager_mask,
    sdpa_mask,
    sliding_window_bidirectional_mask_function,
)

from hsa_pyg.integrations.transformers.masks import kept_places, padding_mask

KEPT = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]).bool()
SIZES = {"batch_size": 3, "q_length": 5, "kv_length": 5}
CPU = torch.device("cpu")


def read(mask, causal=False):
    return kept_places(mask, 3, 5, causal, CPU)


@pytest.mark.parametrize("make", [sdpa_mask, eager_mask])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_of_other_implementations(make, causal):
    pattern = causal_mask_function if causal else bidirectional_mask_function
    mask = make(
        batch_size=3,
        q_length=5,
        kv_length=5,
        mask_function=pattern,
        attention_mask=KEPT,
    )
    assert mask.shape == (3, 1, 5, 5)
    assert read(mask, causal).equal(KEPT)


@pytest.mark.parametrize(
    "mask",
    [
        KEPT,
        KEPT.long(),
        KEPT.float(),
        KEPT[:, None, None, :],
        KEPT[:, None, None, :].expand(-1, 4, 5, -1),
        torch.zeros(3, 1, 1, 5).masked_fill(~KEPT[:, None, None], float("-inf")),
        torch.zeros(3, 1, 5, 5).half().masked_fill(~KEPT[:, None, None], -65504),
    ],
)
def test_masks_of_every_shape(mask):
    assert read(mask).equal(KEPT)


def test_no_mask_keeps_all():
    assert read(None).all()


def test_one_row_for_the_whole_batch():
    assert read(KEPT[1:2, None, None, :]).equal(KEPT[1:2].expand(3, -1))


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (torch.ones(3, 1, 5, 5).tril().bool(), "more than padding"),
        (torch.ones(3, 1, 5, 5).triu(-1).tril(1).bool(), "more than padding"),
        (torch.randn(3, 1, 5, 5), "adds a bias"),
        (torch.ones(3, 1, 5, 4).bool(), "has shape"),
        (torch.ones(3, 4).bool(), "has shape"),
        (torch.ones(3, 5, 5).bool(), "has shape"),
        # Two texts packed in one row; the last sees one of them alone.
        (
            torch.block_diag(torch.ones(2, 2), torch.ones(3, 3))
            .bool()[None, None]
            .expand(3, 1, 5, 5),
            "more than padding",
        ),
        (torch.eye(2, 5)[None, :, None].expand(3, -1, -1, -1).bool(), "between heads"),
    ],
)
def test_masks_that_hide_more_are_refused(mask, words):
    with pytest.raises(NotImplementedError, match=words):
        read(mask)


@pytest.mark.parametrize("row", [KEPT[2], KEPT[2] & False, KEPT[2] | True])
def test_rows_of_padding_see_what_they_like_of_the_text(row):
    mask = KEPT[:, None, None, :].repeat(1, 1, 5, 1)
    mask[2, :, :2] = row
    assert read(mask).equal(KEPT)


def ours(pattern, mask):
    return padding_mask(
        batch_size=3,
        q_length=5,
        kv_length=5,
        mask_function=pattern,
        attention_mask=mask,
    )


@pytest.mark.parametrize("pattern", [bidirectional_mask_function, causal_mask_function])
def test_our_mask_has_one_row_a_text(pattern):
    mask = ours(pattern, KEPT)
    assert mask.shape == (3, 1, 1, 5)
    assert read(mask, pattern is causal_mask_function).equal(KEPT)
    assert ours(pattern, None) is None


def test_other_patterns_are_written_out_and_refused():
    pattern = sliding_window_bidirectional_mask_function(1)
    mask = ours(pattern, KEPT)
    assert mask.shape == (3, 1, 5, 5)
    with pytest.raises(NotImplementedError, match="more than padding"):
        read(mask)
