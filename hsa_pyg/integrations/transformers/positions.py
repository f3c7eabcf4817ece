"""Room for longer texts in models with learned absolute positions."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

Model = TypeVar("Model", bound=nn.Module)

# What modules call their table of positions.
_TABLES = ("position_embeddings", "position_embedding")


@torch.no_grad()
def extend_positions(model: Model, length: int) -> Model:
    """Stretch the learned positions of a text encoder over longer texts, in place.

    The vectors between two learned ones are interpolated linearly, so that the first
    and the last stay what they were and all others move. ``max_position_embeddings``
    of the configuration follows, and the model saves and loads as before. (Models that
    were built from one configuration object share it: give each its own by
    ``copy.deepcopy``.)

    Args:
        model: a text encoder of transformers with a table of absolute positions.
        length: tokens that shall fit.

    Returns:
        The model.

    Raises:
        TypeError: if the length is no integer.
        ValueError: if as many tokens fit already.
        NotImplementedError: if the model has no such table.
    """
    if isinstance(length, bool) or not isinstance(length, int):
        raise TypeError(
            f"length must be an integer, a number of tokens, got {length!r}"
        )
    model_or_inner = getattr(model, "_orig_mod", model)
    holder, name = _table(model_or_inner)
    old = getattr(holder, name)
    # RoBERTa's positions start behind that of padding.
    first = 0 if old.padding_idx is None else old.padding_idx + 1
    fits = old.num_embeddings - first
    if length <= fits:
        raise ValueError(
            f"{type(model).__name__} takes texts of {fits} tokens already; give a "
            f"length above that, not {length}"
        )
    table = old.weight[first:].float().t()[None]
    longer = nn.functional.interpolate(
        table, size=length, mode="linear", align_corners=True
    )
    weight = torch.cat([old.weight[:first], longer[0].t().to(old.weight.dtype)])
    new = nn.Embedding(
        first + length,
        old.embedding_dim,
        padding_idx=old.padding_idx,
        device=old.weight.device,
        dtype=old.weight.dtype,
    )
    new.weight.copy_(weight)
    new.weight.requires_grad_(old.weight.requires_grad)
    new.train(old.training)
    setattr(holder, name, new)
    _extend_buffers(holder, first + length)
    for module in model_or_inner.modules():
        config = getattr(module, "config", None)
        if getattr(config, "max_position_embeddings", None) == old.num_embeddings:
            vars(config)["max_position_embeddings"] = first + length
    return model


def text_positions(model: nn.Module) -> int | None:
    """Tokens that the positions of a text encoder reach to; None if it names no end."""
    most = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    for module in model.modules():
        for name in _TABLES:
            table = getattr(module, name, None)
            # RoBERTa's positions start behind that of padding.
            if isinstance(table, nn.Embedding) and table.padding_idx is not None:
                most = table.num_embeddings - table.padding_idx - 1
    return most


def _table(model: nn.Module) -> tuple[nn.Module, str]:
    if getattr(getattr(model, "config", None), "patch_size", None) is not None:
        raise NotImplementedError(
            f"{type(model).__name__} has positions of patches: call it with "
            "interpolate_pos_encoding=True for images of another size"
        )
    found = [
        (module, name)
        for module in model.modules()
        for name in _TABLES
        if isinstance(getattr(module, name, None), nn.Embedding)
    ]
    if len(found) != 1:
        raise NotImplementedError(
            f"{type(model).__name__} has {len(found)} tables of learned absolute "
            "positions, not one; pass the text encoder itself. Models whose positions "
            "are relative or rotary need none"
        )
    return found[0]


def _extend_buffers(holder: nn.Module, rows: int) -> None:
    """Positions and token types that embeddings keep for texts of any length."""
    for name, value in list(holder.named_buffers(recurse=False)):
        if name == "position_ids":
            longer = torch.arange(rows, dtype=value.dtype, device=value.device)
        elif name == "token_type_ids":
            longer = value.new_zeros(rows)
        else:
            continue
        persistent = name not in holder._non_persistent_buffers_set
        holder.register_buffer(name, longer.expand(1, -1), persistent=persistent)
