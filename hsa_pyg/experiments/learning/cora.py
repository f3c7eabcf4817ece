"""Cora: papers that cite one another, and their fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.analysis.counted_flops import counted_flops
from hsa_pyg.cli import SettingsError
from hsa_pyg.converters import from_graph
from hsa_pyg.data import NestedSignal
from hsa_pyg.experiments.learning.vertex_settings import VertexSettings
from hsa_pyg.experiments.learning.vertex_training import VertexTask
from hsa_pyg.experiments.models import GlobalAttentionGNN
from hsa_pyg.hierarchy import CHILD_OF
from hsa_pyg.nn import LeafEncoder

#: Planetoid's raw files, which the data folder has in ``planetoid``.
FILES = tuple(
    f"ind.cora.{end}"
    for end in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
)
_PARTS = ("train", "val", "test")


class Cora(VertexTask):
    """2,708 papers with their words; 140 are trained on, 500 validate, 1,000 test.

    The standard split of Z. Yang et al., "Revisiting Semi-Supervised Learning with
    Graph Embeddings", 2016 (https://arxiv.org/abs/1603.08861). Communities are found
    once, by the citations alone.

    Args:
        settings: Complete ones.
        signal: The graph and its tree.
    """

    def __init__(self, settings: VertexSettings, signal: NestedSignal) -> None:
        vertex = signal["vertex"]
        y, parts = vertex.y, {part: vertex[f"{part}_mask"] for part in _PARTS}
        hierarchy = signal.hierarchy
        facts = {
            **{f"{name} papers": int(mask.sum()) for name, mask in parts.items()},
            "citations": signal["vertex", "to", "vertex"].edge_index.size(1) // 2,
            "depth": hierarchy.max_depth,
            "largest family": hierarchy.max_branching,
        }
        channels, dropout = settings.channels or 1, settings.dropout or 0.0
        # Words are dropped too, as is usual where so few papers are trained on.
        words = torch.nn.Sequential(
            torch.nn.Dropout(dropout), torch.nn.Linear(vertex.x.size(1), channels)
        )
        model = GlobalAttentionGNN.from_schema(
            signal.schema,
            int(y.max()) + 1,
            channels,
            encoder=LeafEncoder(channels, modules={"vertex": words}),
            num_layers=settings.layers or 1,
            heads=settings.heads or 1,
            level="vertex",
            local=settings.local,
            attention=settings.model,
            expansion=settings.expansion or 1,
            dropout=dropout,
        )
        super().__init__(model, y, parts, facts)
        self.settings = settings
        self.signal = signal

    def batches(self) -> Iterator[Tensor]:
        """All papers at once."""
        yield torch.arange(self.y.numel())

    def logits(self, vertices: Tensor) -> Tensor:
        """Logits [k, num_classes] of k papers, in training."""
        return self.model(self.signal)[vertices]

    @torch.no_grad()
    def all_logits(self) -> Tensor:
        """Logits [n, num_classes] of all papers."""
        self.model.eval()
        return self.model(self.signal)

    def num_leaves(self) -> int:
        """Papers."""
        return self.y.numel()

    def attention_flops(self) -> int:
        """Of an epoch: there and back in training, and an evaluation."""
        channels, heads = self.settings.channels or 1, self.settings.heads or 1
        if self.settings.model == "none":
            return 0
        if self.settings.model == "performer":
            features = self.model.blocks[
                0
            ].attention.attention.fast_attn.projection_matrix.size(0)
            # Features of queries and keys, then keys by values and queries by these.
            each = 8 * (channels // heads) * features * heads * self.num_leaves()
            passes = 4 * each
        else:
            both = (
                counted_flops(self.signal.hierarchy, channels, heads, backward=back)
                for back in (False, False, True)
            )
            name = "hsa" if self.settings.model == "hsa" else "softmax"
            passes = sum(getattr(found, name) for found in both)
        return passes * (self.settings.layers or 1)


def load_cora(settings: VertexSettings, data: Path, cache: Path) -> Cora:
    """Read the graph, and find its communities.

    Args:
        settings: Complete ones.
        data: Folder that has Planetoid's files in ``planetoid``.
        cache: Not used: nothing is kept.

    Raises:
        SettingsError: if the files are not there.
    """
    from torch_geometric.io import read_planetoid_data
    from torch_geometric.transforms import NormalizeFeatures

    folder = data / "planetoid"
    lacking = [name for name in FILES if not (folder / name).is_file()]
    if lacking:
        raise SettingsError(
            f"There is no file {folder / lacking[0]}: put Planetoid's files of Cora "
            "there (https://github.com/kimiyoung/planetoid)."
        )
    graph = NormalizeFeatures()(read_planetoid_data(str(folder), "cora"))
    shuffled = settings.tree == "random"
    method: Any = "leiden" if shuffled else settings.tree or "leiden"
    signal = from_graph(graph, method, max_family=settings.max_family or 64)
    return Cora(settings, at_random_places(signal) if shuffled else signal)


def at_random_places(signal: NestedSignal, seed: int = 0) -> NestedSignal:
    """The tree as it is, with its vertices at other places.

    Families, their sizes and depths stay the same; what is in them has nothing to do
    with the edges any more.

    Args:
        signal: A graph and its tree.
        seed: Of the draw.
    """
    out = copy.copy(signal)
    vertices = signal["vertex"].num_nodes
    generator = torch.Generator().manual_seed(seed)
    place = torch.randperm(vertices, generator=generator)
    for kind in signal.edge_types:
        if kind[:2] == ("vertex", CHILD_OF):
            child, parent = signal[kind].edge_index
            out[kind].edge_index = torch.stack([place[child], parent])
    return out
