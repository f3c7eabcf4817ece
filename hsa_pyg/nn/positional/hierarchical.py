"""The positional embedding of every node of a hierarchy in its parent's domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn.inits import reset
from torch_geometric.nn.module_dict import ModuleDict

from hsa_pyg.hierarchy import CHILD_OF, SignalHierarchy
from hsa_pyg.nn.positional.coordinates import (
    CoordinatePosition,
    GridPosition,
    SequencePosition,
)
from hsa_pyg.nn.positional.graph import GraphPosition
from hsa_pyg.nn.positional.keys import KeyValuePosition, SetPosition

_BY_NAME = {
    "sequence": SequencePosition,
    "grid": GridPosition,
    "graph": GraphPosition,
    "set": SetPosition,
}
#: Names of domains by their number of coordinates.
_OF_COLUMNS = {1: "sequence", 2: "grid"}


class DistinctPositions(NamedTuple):
    """Positions of M nodes, of which many are equal, as a layer takes them.

    Args:
        position: [U, P] the different positions; row 0 is zero.
        domain: [U] domain ids.
        position_index: [M] the row of each node.
    """

    position: Tensor
    domain: Tensor
    position_index: Tensor


class HierarchicalPosition(torch.nn.Module):
    r"""Picks a child's positional embedding by the domain of its parent.

    The result is :math:`\epsilon` of docs/mathematics.md, before the linear map per
    domain and layer that :class:`~hsa_pyg.nn.HSAConv` applies. Roots and the members of
    sets have zeros.

    Args:
        domains: The domain of each internal node type: ``"sequence"``, ``"grid"``,
            ``"graph"``, ``"set"``, or a module, such as
            ``KeyValuePosition(num_keys, channels)``. Each type has its own parameters,
            and its own domain id in the order given. A module of your own has the
            attribute ``channels``, and maps the ``pos`` of all children of the type's
            nodes to :math:`(n, P)`.
        channels: Size P of the positional embeddings.

    What each domain reads from a child's node store: sequences and grids ``pos``
    (:math:`(n, 1)` and :math:`(n, 2)`), key-value domains ``key`` (:math:`(n)`), graphs
    the edges between the children, of any relation but ``child_of``.

    Shapes:
        - **input:** a signal or batch, and its hierarchy of M nodes
        - **output:** positions :math:`(M, P)`, domain ids :math:`(M)`

    .. code-block:: python

        >>> HierarchicalPosition({"document": "sequence", "sentence": "sequence"}, 16)
        HierarchicalPosition(16, document=SequencePosition(16, kind='sinusoidal'),
            sentence=SequencePosition(16, kind='sinusoidal'))
    """

    zero: Tensor

    def __init__(
        self, domains: Mapping[str, str | torch.nn.Module], channels: int
    ) -> None:
        super().__init__()
        self.channels = channels
        modules = {}
        for name, domain in domains.items():
            if isinstance(domain, str):
                if domain not in _BY_NAME:
                    raise ValueError(
                        f"the domain of {name!r} must be one of {list(_BY_NAME)} or a "
                        f"module such as KeyValuePosition(num_keys, {channels}), got "
                        f"{domain!r}"
                    )
                modules[name] = _BY_NAME[domain](channels)
            else:
                modules[name] = domain
            wide = getattr(modules[name], "channels", None)
            if wide is None:
                raise ValueError(
                    f"the module for the domain of {name!r} has no attribute "
                    f"'channels'; set it to the width of its rows, {channels}"
                )
            if wide != channels:
                raise ValueError(
                    f"the domain of {name!r} has {wide} channels instead of {channels}"
                )
        self.domains = ModuleDict(modules)
        # Where there is no position; it follows the module's device and dtype.
        self.register_buffer("zero", torch.zeros(channels), persistent=False)

    @property
    def num_domains(self) -> int:
        """Number of domains, as :class:`~hsa_pyg.nn.HSAConv` wants to know it."""
        return max(len(self.domains), 1)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.domains.values():
            reset(module)

    def forward(
        self, signal: HeteroData, hierarchy: SignalHierarchy
    ) -> tuple[Tensor, Tensor]:
        r"""Embed all nodes of a signal or batch: positions [M, P], domain ids [M].

        Raises:
            ValueError: if an internal type has no domain, a child type lacks the
                attribute that its parent's domain reads, has not one row of it per
                node or coordinates of another shape, a module gives rows of another
                shape, or the hierarchy is that of another signal.
            IndexError: if an edge between siblings names a node that is not there, or
                a key is not among those of its parent's domain.
        """
        position, domain, index = self.distinct(signal, hierarchy)
        return position.index_select(0, index), domain[index]

    # What is distinct depends on values: torch.compile would break at each domain.
    @torch.compiler.disable
    def distinct(
        self, signal: HeteroData, hierarchy: SignalHierarchy
    ) -> DistinctPositions:
        r"""The same, with a row for each different position instead of each node.

        The third words of all sentences share a row. A layer maps U rows instead of M:
        ``conv(x, hierarchy, **positions.distinct(signal, hierarchy)._asdict())``.

        Returns:
            Positions [U, P], of which row 0 is zero, for nodes without one; domain ids
            [U]; and the row of each node [M]. Equal coordinates in a sequence or grid
            share a row, positions of other domains do not.

        Raises:
            ValueError, IndexError: as :meth:`forward` does.
        """
        _check_match(signal, hierarchy)
        parts, numbers = [self.zero[None]], [0]
        sizes, index, total = [1], torch.zeros_like(hierarchy.parent), 1
        for number, parent_type, nodes, children in self._families(signal, hierarchy):
            module = self.domains[parent_type]
            row = None
            if isinstance(module, GraphPosition):
                edges = _sibling_edges(signal, hierarchy, nodes)
                given, eps = nodes, module(edges, hierarchy.parent[nodes])
            else:
                key = "key" if isinstance(module, KeyValuePosition) else "pos"
                given = torch.cat(
                    [_read(signal, n, key, parent_type, module)[c] for n, c in children]
                )
                if isinstance(module, CoordinatePosition):
                    given, row = _distinct_rows(given, module.num_coordinates)
                try:
                    eps = module(given)
                except IndexError as error:
                    if not isinstance(module, KeyValuePosition):
                        raise
                    text = _unknown_key(given, module.num_keys, children, parent_type)
                    raise IndexError(text) from error
            if eps.shape != (given.size(0), self.channels):
                raise ValueError(
                    f"the module for the domain of {parent_type!r} gave positions of "
                    f"shape {tuple(eps.shape)} instead of "
                    f"{(given.size(0), self.channels)}, a row for each child"
                )
            if row is None:
                row = torch.arange(eps.size(0), device=index.device)
            index[nodes] = row + total
            parts.append(eps.to(self.zero.dtype))
            numbers.append(number)
            sizes.append(eps.size(0))
            total += eps.size(0)
        domain = torch.tensor(numbers, device=index.device).repeat_interleave(
            torch.tensor(sizes, device=index.device), output_size=total
        )
        return DistinctPositions(torch.cat(parts), domain, index)

    def _families(
        self, signal: HeteroData, hierarchy: SignalHierarchy
    ) -> Iterator[tuple[int, str, Tensor, list[tuple[str, Tensor]]]]:
        """Of each internal type that has positions: its domain, name and children.

        The children are node ids of the hierarchy, and ids within each child type.
        """
        number = {name: i for i, name in enumerate(self.domains.keys())}
        children: dict[str, list[tuple[str, Tensor]]] = {}
        for child_type, relation, parent_type in signal.edge_types:
            if relation != CHILD_OF:
                continue
            child = signal[child_type, relation, parent_type].edge_index[0]
            if child.numel() == 0:
                continue
            if parent_type not in number:
                raise ValueError(
                    f"internal type {parent_type!r} has no domain among "
                    f"{list(number)}; name one, for instance 'set'"
                )
            children.setdefault(parent_type, []).append((child_type, child))
        for parent_type, parts in children.items():
            if isinstance(self.domains[parent_type], SetPosition):
                continue
            nodes = torch.cat(
                [child + hierarchy.node_slices[name][0] for name, child in parts]
            )
            yield number[parent_type], parent_type, nodes, parts

    def __repr__(self) -> str:
        domains = ", ".join(f"{name}={mod}" for name, mod in self.domains.items())
        return f"{self.__class__.__name__}({self.channels}, {domains})"


def _check_match(signal: HeteroData, hierarchy: SignalHierarchy) -> None:
    ours = {kind: store.num_nodes for kind, store in signal.node_items()}
    theirs = {kind: stop - at for kind, (at, stop) in hierarchy.node_slices.items()}
    if ours != theirs:
        raise ValueError(
            f"the hierarchy is that of another signal: it has the nodes {theirs}, the "
            f"signal {ours}; pass signal.hierarchy"
        )


def _distinct_rows(pos: Tensor, columns: int) -> tuple[Tensor, Tensor | None]:
    """The different rows of coordinates, and which of them each row is.

    None instead of the latter if every row is left in its place.
    """
    if pos.dim() != 2 or pos.size(1) != columns or pos.requires_grad:
        return pos, None
    _, which = torch.unique(pos[:, 0], return_inverse=True)
    for column in pos.T[1:]:
        values, place = torch.unique(column, return_inverse=True)
        _, which = torch.unique(which * values.numel() + place, return_inverse=True)
    rows = pos.new_empty(int(which.max()) + 1, columns)
    rows[which] = pos  # of equal ones any
    return rows, which


def _read(
    signal: HeteroData, name: str, key: str, parent_type: str, module: torch.nn.Module
) -> Tensor:
    value = signal[name].get(key)
    if not isinstance(value, Tensor):
        raise ValueError(
            f"nodes of type {name!r} have no {key!r}, which the domain of their parent "
            f"type {parent_type!r} reads; set signal[{name!r}].{key}, or make "
            f"{parent_type!r} a 'set'"
        )
    if value.dim() == 0 or value.size(0) != signal[name].num_nodes:
        raise ValueError(
            f"{key!r} of type {name!r} must have one row for each of its "
            f"{signal[name].num_nodes} nodes, got shape {tuple(value.shape)}"
        )
    if isinstance(module, CoordinatePosition):
        columns = module.num_coordinates
        if value.dim() != 2 or value.size(1) != columns:
            remedy = ""
            if value.dim() == 1 and columns == 1:
                remedy = f"; use signal[{name!r}].pos[:, None]"
            elif value.dim() == 2 and value.size(1) in _OF_COLUMNS:
                domain = _OF_COLUMNS[value.size(1)]
                remedy = (
                    f"; so many columns are those of {{{parent_type!r}: {domain!r}}}"
                )
            raise ValueError(
                f"'pos' of type {name!r} must have shape [num_nodes, {columns}] for "
                f"{type(module).__name__}, the domain of its parent type "
                f"{parent_type!r}, got {tuple(value.shape)}{remedy}"
            )
    # Keys are ids, coordinates are columns.
    return value if key == "key" or value.dim() != 1 else value[:, None]


def _unknown_key(
    key: Tensor, num_keys: int, children: list[tuple[str, Tensor]], parent_type: str
) -> str:
    """Names the first of the children with a key that its domain lacks."""
    row = int(((key < 0) | (key >= num_keys)).nonzero()[0])
    named = [(name, node) for name, nodes in children for node in nodes.tolist()]
    name, node = named[row]
    return (
        f"'key' of node {node} of type {name!r} is {int(key[row])}, but the domain "
        f"of its parent type {parent_type!r} has the keys 0 to {num_keys - 1}; correct "
        "it, or raise num_keys"
    )


def _sibling_edges(
    signal: HeteroData, hierarchy: SignalHierarchy, nodes: Tensor
) -> Tensor:
    """Edges with both ends among ``nodes``, as rows of ``nodes``: [2, E]."""
    row = nodes.new_full((hierarchy.num_nodes,), -1)
    row[nodes] = torch.arange(nodes.numel(), device=nodes.device)
    edges = [nodes.new_empty(2, 0)]
    for source, relation, target in signal.edge_types:
        if relation == CHILD_OF:
            continue
        edge = signal[source, relation, target].edge_index
        ends = []
        for i, name in enumerate((source, target)):
            start, stop = hierarchy.node_slices[name]
            outside = (edge[i] < 0) | (edge[i] >= stop - start)
            # Another type's nodes are next to these.
            if bool(outside.any()):
                column = int(outside.nonzero()[0])
                raise IndexError(
                    f"edge {column} of {(source, relation, target)} names node "
                    f"{int(edge[i, column])} of type {name!r}, which has "
                    f"{stop - start} nodes"
                )
            ends.append(row[edge[i] + start])
        edge = torch.stack(ends)
        edges.append(edge[:, (edge >= 0).all(dim=0)])
    return torch.cat(edges, dim=1)
