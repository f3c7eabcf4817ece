"""Theta as a matrix, the tests' own oracle (docs/mathematics.md, section 2).

It shares nothing with the library but the parent vector: block means are products with
a dense indicator matrix, energies live in exp space, and nothing is kept from
overflowing, so scores must be moderate. Autograd differentiates it.
"""

import torch

from hsa_pyg import hierarchical_attention


class Blocks:
    """Who is below whom, as dense matrices.

    Attributes:
        below: [M, N] whether a leaf row lies below a node (or is it).
        siblings: [M, M] whether two different nodes with leaves share a parent.
        count: [M] leaves below.
    """

    def __init__(self, hierarchy):
        self.parent = hierarchy.parent.tolist()
        leaves = hierarchy.leaves.tolist()
        below = torch.zeros(len(self.parent), len(leaves), dtype=torch.float64)
        for row, leaf in enumerate(leaves):
            node = leaf
            while node >= 0:
                below[node, row] = 1
                node = self.parent[node]
        self.below, self.leaves = below, leaves
        self.count = below.sum(1)
        parent = torch.tensor(self.parent)
        together = (parent[:, None] == parent) & (parent >= 0)
        alive = self.count > 0
        self.siblings = (
            together
            & alive[:, None]
            & alive
            & ~torch.eye(len(parent), dtype=torch.bool)
        )

    def bottom_up(self):
        """Nodes with leaves, children before their parents."""
        depth = []
        for node in range(len(self.parent)):
            steps, above = 0, self.parent[node]
            while above >= 0:
                steps, above = steps + 1, self.parent[above]
            depth.append(steps)
        nodes = [i for i in range(len(depth)) if self.count[i] > 0]
        return sorted(nodes, key=lambda i: -depth[i])

    def expand(self, block):
        """Entries of sibling blocks [H, M, M] as entries of leaf pairs [H, N, N]."""
        held = torch.where(self.siblings, block, 0)
        return torch.einsum("bi,hbc,cj->hij", self.below, held, self.below)


def dot_scores(q, k, scale):
    """c q_i . k_j: [H, N, N]."""
    return scale * torch.einsum("ihd,jhd->hij", q, k)


def leaf_scores(blocks, raw, position=None):
    """Scores that flat softmax would see, c q_i.k_j + eps_B.eps_C: [H, N, N]."""
    if position is None:
        return raw
    own = position[blocks.leaves].square().sum(-1).T  # [N, H] -> [H, N]
    pairs = torch.einsum("bhp,chp->hbc", position, position)
    return raw + blocks.expand(pairs) + torch.diag_embed(own)


def dense_theta(hierarchy, raw, position=None, self_attention=True):
    """Theta [H, N, N] and phi [M, H] from the scores of single leaves.

    Args:
        hierarchy: the forest.
        raw: [H, N, N] scores of leaf pairs, without positions.
        position: [M, 1 or H, P] or None.
        self_attention: whether a leaf attends to itself.
    """
    blocks = Blocks(hierarchy)
    share = blocks.below / blocks.count.clamp(min=1)[:, None]
    s = torch.einsum("bi,hij,cj->hbc", share, raw, share)
    if position is not None:
        s = s + torch.einsum("bhp,chp->hbc", position, position)
    mass = torch.where(blocks.siblings, s.exp() * blocks.count, 0).sum(-1)  # [H, M]
    own = leaf_scores(blocks, raw, position).diagonal(dim1=1, dim2=2)

    heads = raw.size(0)
    gain, bracket = {}, {}  # exp(-phi(B)) and D_B
    order = blocks.bottom_up()
    for node in order:
        if node in blocks.leaves:
            e = own[:, blocks.leaves.index(node)].exp()
            gain[node] = e if self_attention else torch.zeros_like(e)
        else:
            children = [c for c in gain if blocks.parent[c] == node]
            logs = [
                blocks.count[c] / blocks.count[node] * bracket[c].log()
                for c in children
            ]
            gain[node] = torch.stack(logs).sum(0).exp()
        bracket[node] = gain[node] + mass[:, node]
    weight = {}
    for node in reversed(order):
        above = weight.get(blocks.parent[node], torch.ones_like(gain[node]))
        # Nothing to attend to: no weight, rather than 0 / 0.
        seen = bracket[node] > 0
        full = torch.where(seen, bracket[node], 1)
        weight[node] = above * gain[node] / full
    nothing = raw.new_zeros(heads)
    has_siblings = blocks.siblings.any(1).tolist()
    rate = [
        weight[blocks.parent[b]] / bracket[b] if has_siblings[b] else nothing
        for b in range(len(blocks.parent))
    ]
    theta = blocks.expand(torch.stack(rate, 1)[:, :, None] * s.exp())
    diagonal = torch.stack([weight[leaf] for leaf in blocks.leaves], 1)
    phi = [-gain[i].log() if i in gain else nothing for i in range(len(blocks.parent))]
    return theta + torch.diag_embed(diagonal), torch.stack(phi)


def dense_attention(q, k, v, hierarchy, position=None, self_attention=True, scale=None):
    """y and phi by way of the matrix, called as the library is."""
    if position is not None and position.dim() == 2:
        position = position.unsqueeze(1)
    raw = dot_scores(q, k, q.size(2) ** -0.5 if scale is None else scale)
    theta, phi = dense_theta(hierarchy, raw, position, self_attention)
    return torch.einsum("hij,jhw->ihw", theta, v), phi


def measured_theta(q, k, hierarchy, **keywords):
    """Theta [H, N, N] that the library applied: its output for one-hot values."""
    eye = torch.eye(q.size(0), dtype=q.dtype)
    v = eye[:, None].expand(-1, q.size(1), -1).contiguous()
    y = hierarchical_attention(q, k, v, hierarchy, **keywords)
    return y.transpose(0, 1)
