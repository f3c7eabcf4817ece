"""Attention weights in the form that the viewer page holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hsa_pyg.analysis.viewer.contents import TreeOrder, encode
from hsa_pyg.ops.weights import FamilyWeights


def weight_contents(
    weights: Sequence[FamilyWeights], order: TreeOrder, max_weights: int
) -> dict[str, Any]:
    """The weights of all layers and heads, for the page.

    Each layer and head is one array of half-precision numbers: for every node, in their
    order, its weights on its siblings that have leaves, in their order.

    Args:
        weights: the weights of each layer.
        order: the order of the nodes.
        max_weights: most numbers; the heads are averaged if there were more.

    Raises:
        ValueError: if the layers are of another tree, or have too many weights even
            with their heads averaged.
    """
    pairs = max((layer.pair_weight.size(0) for layer in weights), default=0)
    heads = max((layer.pair_weight.size(1) for layer in weights), default=1)
    averaged = len(weights) * pairs * heads > max_weights
    if len(weights) * pairs > max_weights:
        raise ValueError(
            f"{len(weights)} layers of {pairs:,} pairs of siblings are more than the "
            f"{max_weights:,} weights that a page holds: cut the signal, give fewer "
            "layers, or raise max_weights"
        )
    layers = []
    for layer in weights:
        if layer.pair_index.numel() and int(layer.pair_index.max()) >= order.node.size:
            raise ValueError("the weights are those of another signal: run it again")
        source, target = order.number[layer.pair_index.cpu().numpy()]
        sort = np.lexsort((source, target))
        values = layer.pair_weight.detach().float().cpu().numpy()[sort]
        if averaged:
            values = values.mean(axis=1, keepdims=True)
        layers.append([encode(column.astype(np.float16)) for column in values.T])
    return {"layers": layers, "averaged": averaged, "heads": heads}
