"""PyG's DataLoader for signals of unlike types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch_geometric.loader
from torch_geometric.data import Batch, Dataset
from torch_geometric.loader.dataloader import Collater

from hsa_pyg.data import NestedSignal, Schema, complete, unify, union_schema


class SignalCollater(Collater):
    """Joins samples into a batch and compiles its hierarchy, in the worker.

    Args:
        dataset: the data set.
        follow_batch: attributes for which a ``<name>_batch`` vector is made.
        exclude_keys: attributes to leave out.
        schema: the schema to complete samples to; ``None`` unifies each batch.
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Any],
        follow_batch: list[str] | None = None,
        exclude_keys: list[str] | None = None,
        schema: Schema | None = None,
    ) -> None:
        super().__init__(dataset, follow_batch, exclude_keys)
        self.schema = schema

    def __call__(self, batch: Sequence[Any]) -> Any:
        """The batch of some samples: signals, or anything that PyG's loader takes.

        Raises:
            TypeError: if only some samples are signals.
            ValueError: if there is no sample, or signals cannot agree.
        """
        if len(batch) == 0:
            raise ValueError(
                "there is no sample to make a batch of; the batch sampler must give "
                "every batch at least one index"
            )
        # One signal is enough: among other graphs PyG would lose what only it has.
        if not any(isinstance(sample, NestedSignal) for sample in batch):
            return super().__call__(batch)
        if self.schema is None:
            signals = unify(batch)
        else:
            signals = [
                complete(signal, self.schema, f"sample {number} of the batch")
                for number, signal in enumerate(batch)
            ]
        out = Batch.from_data_list(signals, self.follow_batch, self.exclude_keys)
        _ = out.hierarchy  # compiled here, and kept on the way to the main process
        return out


class DataLoader(torch_geometric.loader.DataLoader):
    r"""PyG's :class:`~torch_geometric.loader.DataLoader` for nested signals.

    It also takes signals of unlike types (a page without pictures, then one with): they
    are completed to one schema, so that no node is lost and ``batch[i]`` gives sample i
    back, with empty stores for the types that it lacks. The batch's hierarchy is
    compiled where the batch is made, in a worker if there are any.

    Args:
        dataset: a data set, or a list of signals.
        batch_size: samples in a batch.
        shuffle: whether to draw the samples in a new order each epoch.
        follow_batch: attributes for which a ``<name>_batch`` vector is made.
        exclude_keys: attributes to leave out of the batch.
        schema: the schema of every batch. By default that of all samples of a list, so
            that all batches have the same types; samples of other data sets are unified
            batch by batch.
        **kwargs: as in :class:`torch.utils.data.DataLoader`, without ``collate_fn``.

    Raises:
        ValueError: if two samples cannot agree on an attribute; it names sample, type,
            attribute and remedy.

    .. code-block:: python

        >>> from hsa_pyg.datasets.fake import FakeNestedDataset
        >>> batch = next(iter(DataLoader(FakeNestedDataset(8), batch_size=4)))
        >>> batch.num_graphs, batch.hierarchy.num_trees
        (4, 4)
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Any],
        batch_size: int = 1,
        shuffle: bool = False,
        follow_batch: list[str] | None = None,
        exclude_keys: list[str] | None = None,
        schema: Schema | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dataset, batch_size, shuffle, follow_batch, exclude_keys, **kwargs
        )
        if schema is None and isinstance(dataset, (list, tuple)) and len(dataset) > 0:
            listed = all(isinstance(sample, NestedSignal) for sample in dataset)
            schema = union_schema(dataset) if listed else None
        # Lightning makes loaders anew from the attributes that their arguments left.
        self.schema = schema
        self.collate_fn = SignalCollater(dataset, follow_batch, exclude_keys, schema)
