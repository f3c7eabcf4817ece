"""Models by their names, all made in one way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models.gps_tree import GPSTree
from hsa_pyg.experiments.models.segment_transformer import SegmentTransformer
from hsa_pyg.experiments.models.tree_gnn import TreeGNN
from hsa_pyg.nn import HSATransformer, LeafEncoder
from hsa_pyg.nn.transformer import Attention

_Factory = Callable[..., torch.nn.Module]


def _transformer(attention: Attention) -> _Factory:
    def make(
        schema: Schema,
        out_channels: int,
        channels: int = 64,
        *,
        vocab_sizes: Mapping[str, int | Sequence[int]] | None = None,
        encoder: LeafEncoder | None = None,
        **kwargs: Any,
    ) -> torch.nn.Module:
        if encoder is None:
            encoder = LeafEncoder.from_schema(schema, channels, vocab_sizes)
        elif vocab_sizes is not None:
            raise ValueError("give either 'encoder' or 'vocab_sizes', not both")
        elif encoder.channels != channels:
            raise ValueError(
                f"'channels' is {channels}, but the encoder gives vectors of size "
                f"{encoder.channels}"
            )
        return HSATransformer(encoder, out_channels, attention=attention, **kwargs)

    return make


def _gps(attention: str) -> _Factory:
    def make(*args: Any, **kwargs: Any) -> torch.nn.Module:
        return GPSTree.from_schema(*args, attention=attention, **kwargs)

    return make


#: What makes a model of each name from a schema.
MODELS: Mapping[str, _Factory] = {
    "hsa": _transformer("hsa"),
    "flat": _transformer("flat"),
    "deepset": _transformer("none"),
    "segment": SegmentTransformer.from_schema,
    "hgt": TreeGNN.from_schema,
    "gps": _gps("multihead"),
    "performer": _gps("performer"),
}


def make_model(
    name: str, schema: Schema, out_channels: int, channels: int = 64, **kwargs: Any
) -> torch.nn.Module:
    r"""The model of a name: from a batch of T signals to [T, out_channels].

    Args:
        name: One of :data:`MODELS`.
        schema: The data set's schema.
        out_channels: Size of the output per tree.
        channels: Size of the leaf vectors.
        **kwargs: ``vocab_sizes`` or ``encoder`` (a :class:`~hsa_pyg.nn.LeafEncoder`);
            ``num_layers``, ``heads``, ``dropout``, ``readout`` and ``position``, which
            all models take; and what its class takes besides.

    Raises:
        ValueError: if there is no such model.
    """
    if name not in MODELS:
        raise ValueError(f"model must be one of {list(MODELS)}, got {name!r}")
    return MODELS[name](schema, out_channels, channels, **kwargs)
