"""A nested signal as a PyG data object."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, HeteroData
from torch_geometric.data.storage import NodeStorage

from hsa_pyg.data.completion import fill_in
from hsa_pyg.data.hierarchy_cache import Fingerprint, HierarchyCache
from hsa_pyg.data.schema import EdgeType, Schema, uncounted_type
from hsa_pyg.data.storage import SignalNodeStorage, SignalStorage
from hsa_pyg.data.summary import summarise
from hsa_pyg.data.validation import mangled_names, no_edges, problems
from hsa_pyg.hierarchy import CHILD_OF, SignalHierarchy

_CACHE = "_hierarchy_cache"


class NestedSignal(HeteroData):
    r"""A nested signal: a rooted tree whose leaves carry features.

    Every node type is a *leaf type* (with features ``x``) or an *internal type* (with
    ``num_nodes``). Edges ``(child_type, "child_of", parent_type)`` hold the child in
    row 0 and its parent in row 1. A childless node of an internal type is empty (a
    section without text) and weighs nothing.

    Attributes of a node type, with n nodes:

    * ``x``: [n, F] features, or [n] token ids (leaf types);
    * ``pos``: [n, 1] or [n, 2], place in the parent's sequence or grid;
    * ``key``: [n] key of a child in a key-value parent.

    :func:`torch.load` reads a saved signal with ``weights_only=True`` once ``hsa_pyg``
    is imported.

    It is a :class:`~torch_geometric.data.HeteroData` in all else. (There as here a
    store refers to its signal weakly: keep ``sample = batch[0]`` in a variable before
    ``sample["word"].num_nodes``.)

    Args:
        _mapping: as in :class:`~torch_geometric.data.HeteroData`.
        schema: the data set's schema. The signal then holds every type of it from the
            start, empty where ``_mapping`` and ``kwargs`` give none.
        **kwargs: as in :class:`~torch_geometric.data.HeteroData`.

    Raises:
        ValueError: if what is given contradicts ``schema``.

    .. code-block:: python

        >>> import torch
        >>> signal = NestedSignal()
        >>> signal["document"].num_nodes = 1
        >>> signal["word"].x = torch.tensor([5, 2, 9])
        >>> signal["word", "child_of", "document"].edge_index = torch.tensor(
        ...     [[0, 1, 2], [0, 0, 0]]
        ... )
        >>> signal
        NestedSignal(
          document: 1 node,
          word: 3 leaves in document, x=[3] int64,
        )
        >>> signal.hierarchy
        SignalHierarchy(nodes=4, leaves=3, roots=1, families=1, depth=1, branching=3)
    """

    def __init__(
        self,
        _mapping: Mapping[str, Any] | None = None,
        schema: Schema | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_mapping, **kwargs)
        self.__dict__["_global_store"] = SignalStorage(
            self._global_store.to_dict(), _parent=self
        )
        self.__dict__[_CACHE] = HierarchyCache()
        if schema is not None:
            fill_in(self, schema)

    @classmethod
    def from_dict(cls, mapping: Mapping[Any, Any]) -> NestedSignal:
        """The signal whose :meth:`to_dict` is ``mapping``.

        Args:
            mapping: Attributes by the type of nodes or edges that they are of.

        Raises:
            TypeError: if it holds attributes themselves, as that of a
                :class:`~torch_geometric.data.Data` does.
        """
        out = cls()
        for key, attributes in mapping.items():
            if not isinstance(attributes, Mapping):
                raise TypeError(
                    f"{key!r} holds a {type(attributes).__name__}, not the attributes "
                    "of a type of nodes or edges; a Data, which knows no types, "
                    "becomes a signal by hsa_pyg.converters.from_graph(data)"
                )
            store = out._global_store if key == "_global_store" else out[key]
            for name, value in attributes.items():
                setattr(store, name, value)
        return out

    @property
    def schema(self) -> Schema:
        """What types and attributes the signal has; of a batch, those of its samples.

        It is read off the stores each time, so it follows every edit.
        """
        return self._global_store.sample_schema or Schema.of(self)

    @property
    def num_graphs(self) -> int:
        """1: a single signal is a batch of one sample."""
        return 1

    @property
    def hierarchy(self) -> SignalHierarchy:
        """The compiled hierarchy; of a batch, the forest of all its samples.

        It is compiled on the first read and kept until a parent edge, a number of nodes
        or a leaf type changes. It moves along with ``.to()``, and with a batch from a
        DataLoader's worker; files and copies in other ways compile their own.

        Raises:
            ValueError: if the parent edges form no tree, with type and index; if a type
                of them has no ``edge_index``; if a neighbour sampler cut the tree.
        """
        return self._read_hierarchy()

    # It looks at the values of edges, which a compiler of tensors cannot, but in dozens
    # of small graphs.
    @torch.compiler.disable
    def _read_hierarchy(self) -> SignalHierarchy:
        self._check_whole()
        source = self._fingerprint()
        return self._cache.compiled(source, lambda: self._compile(source))

    def validate(self, raise_on_error: bool = True) -> bool:
        """Check that this is a nested signal, or a batch of them.

        Found are: a type without number of nodes; attributes with a wrong number of
        rows; edges out of range; a child with two parents; a cycle; a leaf type with
        children; a child and a parent in different samples; a sample with several roots
        or none; nodes of a type with neither features nor an edge type that could give
        them children, which layers would pass over. Attribute names to which PyG gives
        a meaning of its own are warned of.

        Args:
            raise_on_error: raise the first problem; otherwise warn of it.

        Returns:
            Whether the signal is right.

        Raises:
            ValueError: names type and index of the first problem.
        """
        for warning in mangled_names(self):
            warnings.warn(warning, stacklevel=2)
        for problem in problems(self):
            if raise_on_error:
                raise ValueError(problem)
            warnings.warn(problem, stacklevel=2)
            return False
        return True

    def keys(self) -> list[str]:
        """Names of all attributes."""
        return list({name for store in self.stores for name, _ in store.items()})

    def to_namedtuple(self) -> Any:
        """The attributes as a named tuple, as a plain HeteroData gives them."""
        return HeteroData.from_dict(self.to_dict()).to_namedtuple()

    def get_node_store(self, key: str) -> NodeStorage:
        """The store of a node type, made if there is none."""
        if key not in self._node_store_dict:
            self._check_type_name(key)
            self._node_store_dict[key] = SignalNodeStorage(_parent=self, _key=key)
        return self._node_store_dict[key]

    def to(
        self, device: int | str | torch.device, *args: str, non_blocking: bool = False
    ) -> NestedSignal:
        """Move the attributes, or those named in ``args``, and the hierarchy along."""
        return self._along(
            lambda: super(NestedSignal, self).to(
                device, *args, non_blocking=non_blocking
            ),
            lambda h: h.to(self._tree_device(), non_blocking=non_blocking),
        )

    def cpu(self, *args: str) -> NestedSignal:
        """Move the attributes to the CPU, and the hierarchy along."""
        return self.to("cpu", *args)

    def cuda(
        self,
        device: int | str | None = None,
        *args: str,
        non_blocking: bool = False,
    ) -> NestedSignal:
        """Move the attributes to a CUDA device, and the hierarchy along."""
        target = "cuda" if device is None else device
        return self.to(target, *args, non_blocking=non_blocking)

    def pin_memory(self, *args: str) -> NestedSignal:
        """Copy the attributes to page-locked memory, and the hierarchy along."""
        return self._along(
            lambda: super(NestedSignal, self).pin_memory(*args),
            lambda h: h.pin_memory(),
        )

    def record_stream(self, stream: torch.cuda.Stream, *args: str) -> NestedSignal:
        """Tell the allocator of a stream; the hierarchy is compiled anew on it."""
        self.__dict__[_CACHE] = HierarchyCache()
        return super().record_stream(stream, *args)

    def __setattr__(self, key: str, value: Any) -> None:
        if key in ("schema", "hierarchy", "num_graphs"):
            raise AttributeError(
                f"'{key}' is worked out from the stores and cannot be set; change the "
                "types and edges instead, or start from NestedSignal(schema=...)"
            )
        super().__setattr__(key, value)

    def __copy__(self) -> NestedSignal:
        out = super().__copy__()
        out.__dict__[_CACHE] = self._cache.fork()
        return out

    def __repr__(self) -> str:
        return summarise(self)

    @property
    def _cache(self) -> HierarchyCache:
        return self.__dict__[_CACHE]

    def _along(
        self,
        move_attributes: Callable[[], Any],
        move_hierarchy: Callable[[SignalHierarchy], SignalHierarchy],
    ) -> NestedSignal:
        hierarchy = None
        if self._cache.filled:
            hierarchy = self._cache.lookup(self._fingerprint())
        move_attributes()
        if hierarchy is not None:
            self._cache.store(self._fingerprint(), move_hierarchy(hierarchy))
        return self

    def _parent_edges(self) -> dict[EdgeType, Tensor]:
        return {
            kind: store["edge_index"]
            for kind, store in self.edge_items()
            if kind[1] == CHILD_OF and "edge_index" in store
        }

    def _check_whole(self) -> None:
        # Without these, nodes would pass for roots of trees of their own.
        for edge_type, store in self.edge_items():
            if edge_type[1] == CHILD_OF and "edge_index" not in store:
                raise ValueError(no_edges(edge_type))
        if any("num_sampled_nodes" in store for store in self.node_stores):
            raise ValueError(
                "the batch comes from a neighbour sampler, which cuts families apart; "
                "load whole signals by hsa_pyg.loader.DataLoader"
            )

    def _tree_device(self) -> torch.device:
        for edge in self._parent_edges().values():
            return edge.device
        for store in self.node_stores:
            if isinstance(store.get("x"), Tensor):
                return store["x"].device
        return torch.device("cpu")

    def _fingerprint(self) -> Fingerprint:
        edges = self._parent_edges()
        sizes = []
        for kind, store in self.node_items():
            if not store.can_infer_num_nodes:
                raise ValueError(uncounted_type(kind, self.edge_types))
            number = store.num_nodes
            sizes.append((kind, int(number) if isinstance(number, Tensor) else number))
        samples: dict[str, Tensor] = {}
        num_trees = None
        if isinstance(self, Batch):
            num_trees = self.num_graphs
            samples = {
                kind: store["batch"]
                for kind, store in self.node_items()
                if "batch" in store
            }
        return Fingerprint(
            (*edges.values(), *samples.values()),
            (
                tuple(sizes),
                tuple(self._leaf_types()),
                tuple(edges),
                tuple(samples),
                num_trees,
            ),
        )

    def _leaf_types(self) -> list[str]:
        # A batch may have been made with exclude_keys=["x"]; its samples know.
        known = self._global_store.sample_schema
        if known is not None:
            return [kind for kind in known.leaf_types if kind in self.node_types]
        return [kind for kind, store in self.node_items() if "x" in store]

    def _compile(self, source: Fingerprint) -> SignalHierarchy:
        sizes, leaf_types, edge_types, sampled, num_trees = source.sizes
        plain = [
            tensor.as_tensor() if isinstance(tensor, EdgeIndex) else tensor
            for tensor in source.tensors
        ]
        edges = dict(zip(edge_types, plain[: len(edge_types)], strict=True))
        samples = dict(zip(sampled, plain[len(edge_types) :], strict=True))
        return SignalHierarchy.from_edge_index(
            edges,
            dict(sizes),
            leaf_types=leaf_types,
            batch_dict=samples if num_trees is not None else None,
            num_trees=num_trees,
        ).to(self._tree_device())
