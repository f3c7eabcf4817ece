"""The stores of a signal: PyG's, with two values that only its collate looks at.

PyG builds a batch (``collate``) and takes it apart again (``separate``) by asking the
stores of the first sample for their ``keys()`` and every sample for the values. It has
two blind spots there, and both are closed by one more key that a store offers, without
ever holding it: ``items()``, ``to_dict()`` and files are as they would be without.

* It does not see which types later samples have, and drops or misplaces their nodes.
  The graph-level store offers the sample's schema: the batch then receives the schemas
  of all samples at once and refuses unlike ones.
* It cannot take apart a type that holds nothing but ``num_nodes`` (a KeyError). A node
  store offers its rows as a tensor without columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data.storage import BaseStorage, EdgeStorage, NodeStorage
from torch_geometric.data.view import KeysView

from hsa_pyg.data.agreement import check_alike
from hsa_pyg.data.schema import COUNTING, Schema

_SCHEMA = "_schema"
_ROWS = "_rows"


class SignalStorage(BaseStorage):
    """Graph-level store; offers ``_schema``.

    In a batch (or a collated data set) it keeps the one schema of all samples, in a
    list with one entry a sample, as PyG keeps any value that is no tensor.
    """

    def keys(self, *args: str) -> KeysView:
        """Names of the attributes and of the schema, which comes first."""
        return KeysView({_SCHEMA: None, **self._mapping}, *args)

    def __getitem__(self, key: str) -> Any:
        if key != _SCHEMA:
            return super().__getitem__(key)
        return self.__dict__.get(_SCHEMA) or Schema.of(self._parent())

    def __setitem__(self, key: str, value: Any) -> None:
        if key != _SCHEMA:
            super().__setitem__(key, value)
        elif isinstance(value, list):
            if any(isinstance(schema, list) for schema in value):
                raise ValueError(
                    "batches cannot be batched once more; batch their samples: "
                    "Batch.from_data_list(first.to_data_list() + second.to_data_list())"
                )
            check_alike(value)
            self.__dict__[_SCHEMA] = [value[0]] * len(value)
        # A sample taken out of a batch gets a single schema back, which its own stores
        # show anyway.

    def to_dict(self) -> dict[str, Any]:
        """The attributes, and of a collated data set its samples' schemas."""
        out = super().to_dict()
        if _SCHEMA in self.__dict__:
            out[_SCHEMA] = self.__dict__[_SCHEMA]
        return out

    @property
    def sample_schema(self) -> Schema | None:
        """The one schema of the samples that were collated into this store."""
        schemas = self.__dict__.get(_SCHEMA)
        return schemas[0] if schemas else None


class SignalNodeStorage(NodeStorage):
    """Node store; offers ``_rows``, a tensor [num_nodes, 0], if it knows how many."""

    @property
    def can_infer_num_nodes(self) -> bool:
        """Whether an attribute tells the number of nodes."""
        return any(name in self._mapping for name in COUNTING)

    def keys(self, *args: str) -> KeysView:
        """Names of the attributes, and of the rows if their number is known."""
        if not self.can_infer_num_nodes:
            return super().keys(*args)
        return KeysView({**self._mapping, _ROWS: None}, *args)

    def __getitem__(self, key: str) -> Any:
        if key == _ROWS and self.can_infer_num_nodes:
            return torch.empty(self.num_nodes, 0)
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key != _ROWS:
            super().__setitem__(key, value)


#: Classes that files of signals name; all are plain containers.
SAFE_STORES = (SignalStorage, SignalNodeStorage, EdgeStorage)
