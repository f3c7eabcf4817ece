"""From the masks of transformers to the places that are no padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Masks that are added to scores hold 0 or the least number of their type.
_HIDDEN = -1e4


def padding_mask(
    *,
    mask_function: Callable[..., Any],
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor | None:
    """The function that the mask interface calls where all layers are replaced.

    Attention needs no L x L mask then, only which tokens are padding.

    Args:
        mask_function: the pattern that the model asks for.
        attention_mask: bool [B, L], the tokens that are no padding.
        **kwargs: sizes, as the interface gives them.

    Returns:
        bool [B, 1, 1, L], or None where nothing is padded. Patterns that are neither
        bidirectional nor causal are written out, so that attention can refuse them.
    """
    from transformers import masking_utils

    plain = (
        getattr(masking_utils, "bidirectional_mask_function", None),
        masking_utils.causal_mask_function,
    )
    if mask_function not in plain or (
        attention_mask is not None and attention_mask.dim() != 2
    ):
        return masking_utils.sdpa_mask(
            mask_function=mask_function, attention_mask=attention_mask, **kwargs
        )
    if attention_mask is None:
        return None
    return attention_mask.to(torch.bool)[:, None, None, :]


def kept_places(
    mask: Tensor | None, batch: int, length: int, causal: bool, device: torch.device
) -> Tensor:
    """The places that are no padding, bool [B, L], read off a mask for attention.

    Args:
        mask: None; [B, L], true or 1 where kept; or [B or 1, H or 1, L or 1, L], bool
            (true where seen) or floating point (added to the scores).
        batch: B.
        length: L.
        causal: whether the mask of a pair may also say that the key comes later.
        device: where the result shall be.

    Raises:
        NotImplementedError: for a mask that hides more than padding.
    """
    if mask is None:
        return torch.ones(batch, length, dtype=torch.bool, device=device)
    mask = mask.to(device)
    seen = mask if mask.dtype == torch.bool else mask != 0
    if mask.is_floating_point() and mask.dim() == 4:
        seen = mask == 0
        if bool((~seen & (mask > _HIDDEN)).any()):
            raise _refusal("adds a bias to the scores")
    if mask.dim() == 2 and mask.shape == (batch, length):
        return seen
    if mask.dim() != 4 or mask.size(3) != length or mask.size(2) not in (1, length):
        raise _refusal(f"has shape {tuple(mask.shape)} for {batch} x {length} tokens")
    # In each kind of mask the last row sees all that is kept.
    kept = seen[:, 0, -1]
    expected = kept[:, None, None, :]
    if mask.size(2) > 1:
        if causal:
            expected = expected & torch.ones_like(seen[0, 0]).tril()
        # Rows of padding see kept tokens, or nothing, or all (instead of nothing). One
        # that sees others is of a text of its own, packed with more of them.
        padded = ~kept[:, None, :, None]
        strayed = padded & seen & ~kept[:, None, None, :] & ~seen.all(3, keepdim=True)
        if bool(((seen != expected) & ~padded | strayed).any()):
            raise _refusal("hides more than padding")
    elif bool((seen != expected).any()):
        raise _refusal("differs between heads")
    return kept.expand(batch, length).contiguous()


def _refusal(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"the attention mask {what}; a replaced layer knows of padding alone: give "
        "attention_mask [batch, tokens], 1 for tokens and 0 for padding, or call "
        "restore_attention(model)"
    )
