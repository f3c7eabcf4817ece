"""Reading a networkx graph as a tree, or saying why it is none."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx

DIRECTIONS = ("parent_to_child", "child_to_parent")


@dataclass
class Tree:
    """A tree of any hashable nodes.

    Args:
        attributes: Attributes of every node.
        root: The root.
        parent: Parent of every node but the root.
        children: Children of every node, in order.
        edge_attributes: Attributes of the edge above every node but the root.
    """

    attributes: Mapping[Any, Mapping[Any, Any]]
    root: Any = None
    parent: dict[Any, Any] = field(default_factory=dict)
    children: dict[Any, list[Any]] = field(default_factory=dict)
    edge_attributes: dict[Any, Mapping[Any, Any]] = field(default_factory=dict)

    def depth_first(self) -> Iterator[Any]:
        """Yield the nodes, parents before children, siblings in order."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(self.children[node]))

    def link(self, parent: Any, child: Any, attributes: Mapping[Any, Any]) -> None:
        """Hang a node under another; what is no tree is a ValueError."""
        if parent == child:
            raise ValueError(f"Not a tree: node {child!r} is its own parent (a cycle).")
        known = self.parent.get(child, child)
        if known != child:
            raise ValueError(
                f"Not a tree: two edges lead from {parent!r} to {child!r}."
                if known == parent
                else f"Not a tree: node {child!r} has two parents, {known!r} and "
                f"{parent!r}. If edges lead from child to parent, pass "
                "direction='child_to_parent' (or 'parent_to_child', the default)."
            )
        self.parent[child] = parent
        self.children[parent].append(child)
        self.edge_attributes[child] = attributes


def read_tree(
    graph: networkx.Graph, direction: str = "parent_to_child", root: Hashable = None
) -> Tree:
    """Read a networkx graph as a tree.

    Args:
        graph: A directed graph, or an undirected one with ``root``.
        direction: ``"parent_to_child"`` or ``"child_to_parent"``.
        root: The root of an undirected tree.

    Raises:
        TypeError: If ``graph`` is no networkx graph.
        ValueError: If it is no tree; it names a node and what is wrong with it.
    """
    if not hasattr(graph, "is_directed") or not hasattr(graph, "adj"):
        raise TypeError(
            f"A networkx graph is wanted, got a {type(graph).__name__}; nested lists "
            "and dicts are converted by from_nested."
        )
    if direction not in DIRECTIONS:
        raise ValueError(f"direction={direction!r} is not one of {DIRECTIONS}.")
    tree = Tree(dict(graph.nodes(data=True)))
    if not tree.attributes:
        raise ValueError("The graph has no node; a tree has at least its root.")
    if root is not None and root not in tree.attributes:
        raise ValueError(f"root={root!r} is not among the nodes of the graph.")
    tree.children = {node: [] for node in tree.attributes}
    if graph.is_directed():
        _read_directed(tree, graph, direction, root)
    elif root is None:
        raise ValueError("An undirected tree needs root=, the node to hang it up by.")
    else:
        _read_undirected(tree, graph, root)
    return tree


def _read_directed(
    tree: Tree, graph: networkx.Graph, direction: str, root: Hashable
) -> None:
    for source, target, attributes in graph.edges(data=True):
        if direction == "parent_to_child":
            tree.link(source, target, attributes)
        else:
            tree.link(target, source, attributes)
    roots = [node for node in tree.attributes if node not in tree.parent]
    if len(roots) > 1:
        raise ValueError(
            f"Not a tree: it has {len(roots)} roots, among them {roots[0]!r} and "
            f"{roots[1]!r}, which have no parent; join them under one node."
        )
    if root is not None and root in tree.parent:
        raise ValueError(
            f"root={root!r} has the parent {tree.parent[root]!r}; give the tree below "
            "it alone, or the true root."
        )
    if roots:
        tree.root = roots[0]
    reached = set(tree.depth_first()) if roots else set()
    for node in tree.attributes:
        if node not in reached:
            raise ValueError(_cycle(tree, node))


def _cycle(tree: Tree, node: Any) -> str:
    # A node that the root does not reach hangs below a cycle, or is on it.
    seen: set[Any] = set()
    while node not in seen:
        seen.add(node)
        node = tree.parent[node]
    return (
        f"Not a tree: node {node!r} is its own ancestor (a cycle), through "
        f"{tree.parent[node]!r}."
    )


def _read_undirected(tree: Tree, graph: networkx.Graph, root: Hashable) -> None:
    tree.root = root
    stack = [root]
    while stack:
        node = stack.pop()
        for _, neighbour, attributes in graph.edges(node, data=True):
            if neighbour == node:
                tree.link(node, node, attributes)
            if tree.parent.get(node, node) == neighbour and neighbour != node:
                if graph.number_of_edges(node, neighbour) > 1:
                    raise ValueError(
                        f"Not a tree: two edges join {neighbour!r} and {node!r}."
                    )
                continue
            if neighbour in tree.parent or neighbour == root:
                raise ValueError(
                    f"Not a tree: node {neighbour!r} is reached in two ways, the second"
                    f" from {node!r} (a cycle)."
                )
            tree.link(node, neighbour, attributes)
            stack.append(neighbour)
    for node in tree.attributes:
        if node != root and node not in tree.parent:
            raise ValueError(
                f"Not a tree: node {node!r} cannot be reached from the root {root!r}; "
                "join the parts, or convert each."
            )
