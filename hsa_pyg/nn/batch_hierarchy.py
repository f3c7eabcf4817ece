"""The hierarchy of a batch of whole trees, and what is said of anything else."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hsa_pyg.hierarchy import SignalHierarchy


def batch_hierarchy(batch: HeteroData) -> SignalHierarchy:
    """The hierarchy of a signal or of a batch, in which each signal is one tree.

    Args:
        batch: A :class:`~hsa_pyg.NestedSignal`, or a batch of them.

    Raises:
        TypeError: if it is neither.
        ValueError: if it was cut by a neighbour sampler, or a signal has several roots
            or none.
    """
    if isinstance(batch, list | tuple):
        raise TypeError(
            f"the model takes a NestedSignal or a batch of them, got a "
            f"{type(batch).__name__}; hsa_pyg.loader.DataLoader makes batches"
        )
    if isinstance(batch, Tensor):
        raise TypeError(
            "the model takes a NestedSignal or a batch of them, got a tensor of shape "
            f"{tuple(batch.shape)}; pass the signal with its tree, not its x: make one "
            "by NestedSignal() or a converter of hsa_pyg.converters, or call a layer "
            "HSAConv(...)(x, hierarchy)"
        )
    # Looked for on the class, to compile nothing.
    if not hasattr(type(batch), "hierarchy"):
        remedy = (
            "NestedSignal.from_dict(data.to_dict()), or by a converter of "
            "hsa_pyg.converters"
        )
        if isinstance(batch, Data):
            remedy = (
                "hsa_pyg.converters.from_graph(data), or give the data set "
                "transform=ToHierarchy()"
            )
        raise TypeError(
            f"the model takes a NestedSignal or a batch of them, got "
            f"{type(batch).__name__}; make its samples signals by {remedy}"
        )
    hierarchy: SignalHierarchy = batch.hierarchy
    if hierarchy.num_roots != batch.num_graphs:
        raise ValueError(
            f"the batch has {hierarchy.num_roots} roots for {batch.num_graphs} "
            "signals, but each must be one tree; signal.validate() names what is "
            "not joined to the rest by 'child_of' edges"
        )
    return hierarchy
