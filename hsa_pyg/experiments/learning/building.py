"""The model that settings ask for, and what its attention costs."""

from __future__ import annotations

from math import log
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.analysis.counted_flops import counted_flops
from hsa_pyg.experiments.learning.settings import LearningSettings
from hsa_pyg.experiments.learning.task import Task
from hsa_pyg.experiments.models import SegmentTransformer, make_model
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import HierarchicalPosition

#: Names of arguments where they differ from those of the settings.
_ARGUMENTS = {
    "layers": "num_layers",
    "heads": "heads",
    "expansion": "expansion",
    "hidden": "hidden_channels",
    "block": "block",
    "self_attention": "self_attention",
    "readout": "readout",
    "window": "window",
    "dropout": "dropout",
}


def build_model(settings: LearningSettings, task: Task) -> torch.nn.Module:
    """The model of the settings for the signals of a task, with new weights.

    Args:
        settings: Complete ones.
        task: The task.
    """
    options: dict[str, Any] = {
        name: getattr(settings, key)
        for key, name in _ARGUMENTS.items()
        if getattr(settings, key) is not None
    }
    if (size := settings.position_channels) is not None:
        domains = {
            kind: domain(size) if callable(domain) else domain
            for kind, domain in task.domains.items()
        }
        options["position"] = HierarchicalPosition(domains, size)
    if task.encoder is not None:
        options["encoder"] = task.encoder(settings.channels or 1)
    elif task.vocab_sizes:
        options["vocab_sizes"] = task.vocab_sizes
    make = task.model or make_model
    return make(
        settings.model, task.schema, task.outputs, settings.channels or 1, **options
    )


def attention_flops(
    settings: LearningSettings,
    model: torch.nn.Module,
    hierarchy: SignalHierarchy,
    *,
    backward: bool = False,
) -> int:
    """FLOPs of the matrix products of all layers' attention, without padding.

    Products of queries with keys, of weights with values, and of positions, by their
    definition: a multiplication and an addition are two. Message passing of ``hgt``
    counts as attention over the edges of the tree, both ways, that of ``gps`` does not
    count.

    Args:
        settings: Complete ones.
        model: Their model.
        hierarchy: The signals.
        backward: Count the backward pass, which computes scores again.
    """
    channels, heads = settings.channels or 1, settings.heads or 1
    layers = settings.layers or 1
    position = 0 if settings.position_channels is None else channels
    kind = settings.model.rpartition("-")[2]
    if kind == "hsa":
        found = counted_flops(
            hierarchy, channels, heads, position_channels=position, backward=backward
        )
        return layers * found.hsa
    leaves = hierarchy.leaf_counts[hierarchy.roots]
    if kind in ("flat", "multihead"):
        return layers * softmax_flops(leaves, channels, position, backward=backward)
    if isinstance(model, SegmentTransformer):
        segments = model.segments(hierarchy)
        within, across = (
            softmax_flops(
                torch.bincount(one.leaf_tree), channels, position, backward=backward
            )
            for one in (segments.within, segments.across)
        )
        return sum(across if other else within for other in model.across)
    # Positions are added to what these models take in.
    plain = 2 * (5 * channels if backward else 2 * channels)
    nodes = _tree_sizes(hierarchy)
    if settings.model == "gps":
        return layers * plain * _pairs(nodes)
    if settings.model == "hgt":
        return layers * plain * 2 * int((nodes - 1).sum())
    if kind == "performer":
        width = channels // heads
        # Beside message passing, attention is among the leaves alone.
        rows = nodes if settings.model == kind else leaves
        features = int(width * log(width))
        # Features of queries and keys, keys by values, and queries by that.
        once = 2 * 4 * channels * features * int(rows.sum())
        return layers * (2 * once if backward else once)
    return 0


def softmax_flops(
    sizes: Tensor, channels: int, position_channels: int = 0, *, backward: bool = False
) -> int:
    """FLOPs of the matrix products of softmax attention's heads together.

    Args:
        sizes: Members of each set that attends within itself.
        channels: Of queries, keys and values.
        position_channels: Of the positions beside them.
        backward: Count the backward pass, which computes scores again.
    """
    scores = channels + position_channels
    # Once each: the scores, what they weigh. Backward: scores again, gradients of
    # weights and values, of queries (with positions) and keys (with positions).
    pair = 2 * (3 * scores + 2 * channels) if backward else 2 * (scores + channels)
    return pair * _pairs(sizes)


def _pairs(sizes: Tensor) -> int:
    return int(sizes.square().sum())


def _tree_sizes(hierarchy: SignalHierarchy) -> Tensor:
    """Nodes of each tree."""
    root = torch.where(
        hierarchy.parent >= 0, hierarchy.parent, torch.arange(hierarchy.num_nodes)
    )
    for _ in range(hierarchy.max_depth):
        root = root[root]
    return torch.bincount(root, minlength=hierarchy.num_nodes)[hierarchy.roots]
