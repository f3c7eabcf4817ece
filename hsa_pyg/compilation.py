"""Compile a parent vector into the layout that the passes of HSA run on.

Everything here is vectorised over nodes: paths are followed by pointer doubling
(logarithmic in the depth of the tree), families are grouped by sorting. The only
Python loops run over doubling steps, buckets of like-sized families, and tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from hsa_pyg.slots import lay_out_slots

#: Cost of one more bucket, in rows of a family: what a handful of kernel launches is
#: worth. Only the trade between padding and launches depends on it, never a result.
_BUCKET_COST = 256.0
#: What a family costs in a padded bucket, where padding is masked and gathered.
_PADDED_COST = 1.5


#: Rows of zeros behind each tensor of a padded layout. With them none has 0 or 1 rows,
#: the sizes for which torch.compile would build graphs of their own.
SPARE_ROWS = 2


@dataclass(frozen=True)
class FamilyLayout:
    r"""The compiled forest: chains spliced out, empty nodes gone, families bucketed.

    *Internal nodes* are numbered :math:`0, \dots, F - 1` by depth (roots first), the
    children of one node next to each other; each owns the family of its children,
    which has at least two members. A family is *leaf-only* if all its members are
    leaves, and *mixed* otherwise. *Entities* are the internal nodes followed by the
    leaves of mixed families. A *bucket* holds families of one kind, padded to one
    width; a family fills at least half of it. *Slots* hold the same members without
    padding, family by family, leaf-only families first.

    Shapes: F internal nodes, E entities, X = E - F leaves of mixed families, N leaf
    rows, M nodes, S slots, T tiles of slots.
    """

    internal_node: Tensor  #: [F] id of the node that owns each family
    internal_parent: Tensor  #: [F] internal number of its parent, -1 for a root
    internal_count: Tensor  #: [F] leaves below, as an integer
    internal_share: Tensor  #: [F] leaves below / leaves below the parent, float64
    mixed_leaf: Tensor  #: [X] leaf rows that are members of mixed families
    mixed_leaf_parent: Tensor  #: [X] internal number of their parents
    mixed_leaf_share: Tensor  #: [X] 1 / leaves below the parent, float64
    entity_log_count: Tensor  #: [E + 1] log leaves below; the last is padding, -inf
    entity_node: Tensor  #: [E + 1] node that meets the siblings (top of its chain)
    leaf_parent: Tensor  #: [N] internal number of each leaf row's parent; F: none
    root_leaf: Tensor  #: leaf rows that are a whole tree
    bucket_member: Tensor  #: flat members of all buckets; N or E where padded
    bucket_family: Tensor  #: flat internal numbers of the families of all buckets
    node_energy: Tensor  #: [M] where a node finds its energy: F + N + 1 rows
    level_ptr: Tensor  #: CPU: first internal node of each level, and F at the end
    buckets: Tensor  #: CPU: [B, 7], see :data:`BUCKET_FIELDS`
    slot_member: Tensor  #: [S] leaf row of a leaf-only family, or entity of a mixed one
    slot_family: Tensor  #: [S] internal number of the family
    family_first: Tensor  #: [F] first slot
    family_size: Tensor  #: [F] members
    family_order: Tensor  #: [F] internal numbers in the order of the slots
    tile_start: Tensor  #: [T + 1] first slot of every tile, and S
    level_first: Tensor  #: ``level_ptr`` on the device, for kernels that walk levels
    kind_sizes: Tensor  #: CPU: [2, 3] families, slots, tiles; leaf-only, then mixed

    def to(
        self, device: torch.device | str, non_blocking: bool = False
    ) -> FamilyLayout:
        """Move the index tensors; what Python loops over stays on the CPU."""
        return self._map(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> FamilyLayout:
        """Copy the index tensors to page-locked memory."""
        return self._map(lambda x: x.pin_memory())

    def padded(self) -> FamilyLayout:
        """A copy with :data:`SPARE_ROWS` more rows in each tensor."""
        rows = (getattr(self, field.name) for field in fields(self))
        return FamilyLayout(*(with_spare_rows(x) for x in rows))

    def trimmed(self) -> FamilyLayout:
        """Views of a padded layout without its spare rows."""
        rows = (getattr(self, field.name) for field in fields(self))
        return FamilyLayout(*(x[:-SPARE_ROWS] for x in rows))

    def _map(self, function) -> FamilyLayout:  # type: ignore[no-untyped-def]
        stay = ("level_ptr", "buckets", "kind_sizes")
        moved = {
            f.name: getattr(self, f.name)
            if f.name in stay
            else function(getattr(self, f.name))
            for f in fields(self)
        }
        return FamilyLayout(**moved)


#: Columns of :attr:`FamilyLayout.buckets`: 1 for mixed families, 0 for leaf-only ones;
#: width; number of families; first entry in ``bucket_member``; first entry in
#: ``bucket_family``; first member if the members are consecutive and unpadded, else -1;
#: 1 if some family is padded.
BUCKET_FIELDS = ("mixed", "width", "families", "member", "family", "start", "padded")


def with_spare_rows(x: Tensor, number: int = SPARE_ROWS) -> Tensor:
    """``x`` with rows of zeros at its end."""
    return torch.cat([x, x.new_zeros(number, *x.shape[1:])])


def follow(pointer: Tensor, moving: Tensor) -> Tensor:
    """Follow ``pointer`` from every node until ``moving`` is false, by doubling.

    Args:
        pointer: [M] next node; must map a node that does not move to itself.
        moving: [M] whether a node has to be left.
    """
    while bool(moving[pointer].any()):
        pointer = pointer[pointer]
    return pointer


def roots_and_depths(parent: Tensor) -> tuple[Tensor, Tensor, int | None]:
    """The root and the depth of every node, and a node on a cycle if there is one."""
    num_nodes = parent.numel()
    is_root = parent < 0
    ancestor = torch.where(is_root, torch.arange(num_nodes).to(parent), parent)
    depth = (~is_root).long()
    for _ in range(max(num_nodes, 1).bit_length() + 1):
        arrived = is_root[ancestor]
        if bool(arrived.all()):
            return ancestor, depth, None
        depth = depth + depth[ancestor]
        ancestor = ancestor[ancestor]
    # After at least M steps a node that found no root walks round the cycle itself.
    return ancestor, depth, int(ancestor[~is_root[ancestor]].min())


def count_leaves(parent: Tensor, is_leaf: Tensor) -> Tensor:
    r"""Leaves below every node: :math:`\sum_j P^j x = \prod_k (I + P^{2^k}) x`."""
    count = is_leaf.long()
    child = (parent >= 0).nonzero().view(-1)
    ancestor = parent[child]
    jump = parent
    while child.numel() > 0:
        count = count.index_add(0, ancestor, count[child])
        jump = torch.where(jump >= 0, jump[jump.clamp(min=0)], jump)
        child = child[jump[child] >= 0]
        ancestor = jump[child]
    return count


def splice_chains(
    parent: Tensor, is_leaf: Tensor, count: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Skip empty nodes and the parents of only children.

    Returns:
        ``kept`` [M], whether a node stays; ``above`` [M], its parent among those that
        stay (-1 for a root); ``top`` [M], the highest node of the chain that it ends,
        which is the one that meets the siblings; ``below`` [M], the node that stands
        for it (itself where it stays).
    """
    node = torch.arange(parent.numel(), device=parent.device)
    is_root = parent < 0
    filled = count > 0
    child = (filled & ~is_root).nonzero().view(-1)
    children = torch.zeros_like(parent).index_add_(
        0, parent[child], torch.ones_like(child)
    )
    spliced = filled & ~is_leaf & (children == 1)
    kept = filled & ~spliced
    if not bool(spliced.any()):
        return kept, parent, node, node
    only_child = node.clone()
    only_child[parent[child]] = child
    below = follow(torch.where(spliced, only_child, node), spliced)
    mother = parent.clamp(min=0)
    hangs_on_spliced = ~is_root & spliced[mother]
    top = follow(torch.where(hangs_on_spliced, mother, node), hangs_on_spliced)
    return kept, parent[top], top, below


def compile_layout(
    parent: Tensor, is_leaf: Tensor, depth: Tensor, count: Tensor, leaf_row: Tensor
) -> FamilyLayout:
    """Build the :class:`FamilyLayout` of a valid forest.

    Args:
        parent: [M] parents, -1 for roots.
        is_leaf: [M] whether a node is a leaf.
        depth: [M] depth of a node (any number that grows from parent to child).
        count: [M] leaves below a node.
        leaf_row: [M] row of a leaf among the leaves, anything elsewhere.
    """
    num_nodes, num_leaves = parent.numel(), int(is_leaf.sum())
    kept, above, top, below = splice_chains(parent, is_leaf, count)
    has_chains = bool((top != below).any())
    if has_chains:
        squeezed = torch.where(kept, above, torch.full_like(above, -1))
        depth = roots_and_depths(squeezed)[1]

    # Internal nodes by depth, siblings together.
    internal = (kept & ~is_leaf).nonzero().view(-1)
    key = depth[internal] * (num_nodes + 1) + above[internal] + 1
    internal = internal[torch.argsort(key, stable=True)]
    number = torch.full_like(parent, -1)
    number[internal] = torch.arange(internal.numel(), device=parent.device)
    internal_above = above[internal]
    internal_parent = torch.where(
        internal_above >= 0, number[internal_above.clamp(min=0)], -1
    )

    # Members, family by family.
    member = (kept & (above >= 0)).nonzero().view(-1)
    if has_chains:
        # Siblings in the order of their own numbers, not of what stands for them.
        member = member[torch.argsort(top[member])]
    family = number[above[member]]
    order = torch.argsort(family, stable=True)
    member, family = member[order], family[order]
    awkward = ~is_leaf[member] | (top[member] != member)
    mixed = torch.zeros_like(internal, dtype=torch.bool)
    mixed[family[awkward]] = True
    in_mixed = mixed[family]

    leaf_member = in_mixed & is_leaf[member]
    mixed_leaf, mixed_leaf_parent = member[leaf_member], family[leaf_member]
    entity = number.clone()
    entity[mixed_leaf] = internal.numel() + torch.arange(
        mixed_leaf.numel(), device=parent.device
    )
    num_entities = internal.numel() + mixed_leaf.numel()
    entity_node = torch.cat([internal, mixed_leaf])
    internal_count = count[internal]
    parent_count = internal_count[internal_parent.clamp(min=0)]
    log_count = count[entity_node].double().log()

    slot = torch.where(in_mixed, entity[member], leaf_row[member])
    bucket_member, bucket_family, buckets = bucket_families(
        slot, family, mixed, num_leaves, num_entities
    )
    root_leaf = (kept & is_leaf & (above < 0)).nonzero().view(-1)
    leaf_parent = leaf_row.new_full((num_leaves,), internal.numel())
    leaf_parent[leaf_row[member[is_leaf[member]]]] = family[is_leaf[member]]
    standing = torch.where(is_leaf[below], internal.numel() + leaf_row[below], 0)
    standing = torch.where(kept[below] & ~is_leaf[below], number[below], standing)
    standing = torch.where(count > 0, standing, internal.numel() + num_leaves)
    levels = int(depth[internal].max()) + 1 if internal.numel() else 0
    level_ptr = torch.zeros(levels + 1, dtype=torch.long)
    level_ptr[1:] = torch.bincount(depth[internal], minlength=levels).cumsum(0).cpu()
    infinity = log_count.new_full((1,), float("-inf"))
    return FamilyLayout(
        internal_node=internal,
        internal_parent=internal_parent,
        internal_count=internal_count,
        internal_share=internal_count.double() / parent_count.double(),
        mixed_leaf=leaf_row[mixed_leaf],
        mixed_leaf_parent=mixed_leaf_parent,
        mixed_leaf_share=internal_count[mixed_leaf_parent].double().reciprocal(),
        entity_log_count=torch.cat([log_count, infinity]),
        entity_node=torch.cat([top[entity_node], entity_node.new_zeros(1)]),
        leaf_parent=leaf_parent,
        root_leaf=leaf_row[root_leaf],
        bucket_member=bucket_member,
        bucket_family=bucket_family,
        node_energy=standing,
        level_ptr=level_ptr,
        level_first=level_ptr.to(parent.device),
        buckets=buckets,
        **lay_out_slots(slot, family, mixed),
    )


def bucket_families(
    slot: Tensor, family: Tensor, mixed: Tensor, num_leaves: int, num_entities: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Group the families by kind and size, padding a few where that saves a bucket.

    Args:
        slot: [S] leaf row or entity of every member, family by family.
        family: [S] family of every member, ascending.
        mixed: [F] whether a family is mixed.
        num_leaves: padding value in buckets of leaf-only families.
        num_entities: padding value in buckets of mixed families.
    """
    size = torch.bincount(family, minlength=mixed.numel())
    first = size.cumsum(0) - size
    members, families, rows = [], [], []
    at_member = at_family = 0
    for kind, padding in ((0, num_leaves), (1, num_entities)):
        of_kind = (mixed == bool(kind)).nonzero().view(-1)
        size_of_kind = size[of_kind]
        sizes, counts = torch.unique(size_of_kind, return_counts=True)
        widths = torch.tensor(bucket_widths(sizes.tolist(), counts.tolist())).to(size)
        width_of = widths[torch.searchsorted(sizes, size_of_kind)]
        by_width = torch.argsort(width_of, stable=True)
        distinct, per_width = torch.unique(width_of, return_counts=True)
        at = 0
        for width, number in zip(distinct.tolist(), per_width.tolist(), strict=True):
            chosen = of_kind[by_width[at : at + number]]
            at += number
            column = torch.arange(width, device=slot.device)
            index = first[chosen, None] + column
            real = column < size[chosen, None]
            index = torch.where(real, slot[index.clamp(max=slot.numel() - 1)], padding)
            index = index.view(-1)
            start, padded = consecutive(index, padding), int(not real.all())
            rows.append([kind, width, number, at_member, at_family, start, padded])
            members.append(index)
            families.append(chosen)
            at_member += index.numel()
            at_family += number
    empty = slot.new_empty(0)
    return (
        torch.cat([empty, *members]),
        torch.cat([empty, *families]),
        torch.tensor(rows, dtype=torch.long).view(-1, len(BUCKET_FIELDS)),
    )


def bucket_widths(sizes: list[int], counts: list[int]) -> list[int]:
    """The width of the bucket that each size goes to, by a shortest path.

    A bucket costs a constant and, per family, its rows and pairs, more where families
    are padded. Sizes join the next larger ones while that is cheaper, and only if they
    fill half of the bucket.
    """
    best = [0.0] + [float("inf")] * len(sizes)
    cut = [0] * (len(sizes) + 1)
    for end in range(1, len(sizes) + 1):
        width = sizes[end - 1]
        families = 0
        for start in range(end - 1, -1, -1):
            if 2 * sizes[start] < width:
                break
            families += counts[start]
            cost = families * width * (1 + width / 32)
            if start < end - 1:
                cost *= _PADDED_COST
            if best[start] + _BUCKET_COST + cost < best[end]:
                best[end], cut[end] = best[start] + _BUCKET_COST + cost, start
            elif cost > best[end]:
                break
    widths = list(sizes)
    end = len(sizes)
    while end > 0:
        widths[cut[end] : end] = [sizes[end - 1]] * (end - cut[end])
        end = cut[end]
    return widths


def consecutive(index: Tensor, padding: int) -> int:
    """The first of the members if they are consecutive and none is padding, else -1."""
    if index.numel() == 0:
        return -1
    start = int(index[0])
    stop = start + index.numel()
    if stop > padding or int(index[-1]) != stop - 1:
        return -1
    exact = torch.arange(start, stop, device=index.device)
    return start if torch.equal(index, exact) else -1
