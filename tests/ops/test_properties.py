"""What is true of hierarchical self-attention (docs/mathematics.md, section 3).

By either backend, in float64, 1e-10 of the largest number unless a line says
otherwise. Optimality is in test_optimality.py, growth in test_growth.py.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsa_pyg import SignalHierarchy, hierarchical_attention
from tests.dense_theta import (
    Blocks,
    dense_attention,
    dense_theta,
    dot_scores,
    leaf_scores,
    measured_theta,
)
from tests.forests import (
    close,
    forests,
    inputs,
    parent_vectors,
    positions,
    relabel,
    side_by_side,
    star,
)

pytestmark = [
    pytest.mark.parametrize("backend", ["reference", "torch", "cpp"]),
    pytest.mark.parametrize("self_attention", [True, False]),
]
seeds = st.integers(0, 1000)
# Positions: none, for all heads, or one for each of two heads.
per_head = st.sampled_from(["none", "shared", "per head"])


def eps(hierarchy, kind, seed=0):
    if kind == "none":
        return None
    return positions(hierarchy, 2 if kind == "per head" else None, seed=seed)


@given(st.integers(2, 12), seeds)
def test_one_family_is_softmax_attention(backend, self_attention, leaves, seed):
    hierarchy = SignalHierarchy.from_parents(star(leaves))
    q, k, v = inputs(hierarchy, seed=seed)
    mask = torch.zeros(leaves, leaves, dtype=q.dtype)
    if not self_attention:
        mask.fill_diagonal_(float("-inf"))
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(0, 1) for x in (q, k, v)), attn_mask=mask
    ).transpose(0, 1)
    y = hierarchical_attention(
        q, k, v, hierarchy, self_attention=self_attention, backend=backend
    )
    assert close(y, expected)


@given(forests(), seeds, per_head)
def test_agrees_with_the_matrix_built_from_the_definition(
    backend, self_attention, hierarchy, seed, kind
):
    q, k, v = inputs(hierarchy, seed=seed)
    position = eps(hierarchy, kind, seed)
    y, phi = hierarchical_attention(
        q,
        k,
        v,
        hierarchy,
        position=position,
        self_attention=self_attention,
        return_energy=True,
        backend=backend,
    )
    expected = dense_attention(q, k, v, hierarchy, position, self_attention)
    assert close(y, expected[0])
    assert close(phi, expected[1])


@given(forests(), seeds, per_head)
def test_blocks_are_constant_and_rows_sum_to_one(
    backend, self_attention, hierarchy, seed, kind
):
    q, k, _ = inputs(hierarchy, seed=seed)
    theta = measured_theta(
        q,
        k,
        hierarchy,
        position=eps(hierarchy, kind, seed),
        self_attention=self_attention,
        backend=backend,
    )
    blocks = Blocks(hierarchy)
    for b, c in blocks.siblings.nonzero().tolist():
        rows = blocks.below[b].nonzero().view(-1)
        columns = blocks.below[c].nonzero().view(-1)
        block = theta[:, rows][:, :, columns]
        assert close(block, block[:, :1, :1].expand_as(block))
    # A tree of one leaf has no key if the leaf may not attend to itself.
    alone = torch.bincount(hierarchy.leaf_tree)[hierarchy.leaf_tree] == 1
    total = torch.where(alone, float(self_attention), 1.0).double()
    assert close(theta.sum(-1), total.expand(2, -1))
    together = hierarchy.leaf_tree[:, None] == hierarchy.leaf_tree
    assert not theta[:, ~together].any()
    if not self_attention:
        assert not theta.diagonal(dim1=1, dim2=2).any()


@given(forests(trees=1), seeds, per_head)
def test_root_energy_is_the_divergence_from_softmax(
    backend, self_attention, hierarchy, seed, kind
):
    """N phi(root) = sum_i KL(theta_i || softmax_i) - logsumexp_j(score_ij)."""
    leaves = hierarchy.num_leaves
    if leaves == 1 and not self_attention:
        return  # no key, no softmax
    q, k, v = inputs(hierarchy, seed=seed)
    position = eps(hierarchy, kind, seed)
    keywords = {"position": position, "self_attention": self_attention}
    keywords["backend"] = backend
    _, phi = hierarchical_attention(q, k, v, hierarchy, return_energy=True, **keywords)
    theta = measured_theta(q, k, hierarchy, **keywords)
    raw = dot_scores(q, k, q.size(2) ** -0.5)
    if position is not None and position.dim() == 2:
        position = position[:, None].expand(-1, 2, -1)
    score = leaf_scores(Blocks(hierarchy), raw, position)
    if not self_attention:
        no_self = torch.eye(leaves, dtype=torch.bool)
        score = score.masked_fill(no_self, float("-inf"))
    normaliser = score.logsumexp(-1)
    terms = theta * (theta.log() - (score - normaliser[..., None]))
    divergence = torch.where(theta > 0, terms, 0).sum(-1)
    expected = (divergence - normaliser).sum(-1)
    root = int(hierarchy.roots[0])
    assert close(leaves * phi[root], expected)


@given(forests(trees=1), seeds)
def test_gradient_of_the_energy_is_attention_over_keys(
    backend, self_attention, hierarchy, seed
):
    """N sqrt(d) dphi/dq_i = q_i - sum_j theta_ij k_j, squared distances as energies.

    -|q - k|^2 / 2 = (q, 1) . (k, -|k|^2 / 2) - |q|^2 / 2; the last term is common to
    what a query sees, so that phi differs by its mean over the leaves.
    """
    leaves = hierarchy.num_leaves
    if leaves == 1 and not self_attention:
        return  # the energy is infinite
    q, k, v = inputs(hierarchy, seed=seed)
    root_width = q.size(2) ** 0.5
    q.requires_grad_()
    long_q = torch.cat([q, torch.ones_like(q[..., :1])], -1)
    long_k = torch.cat([k, -k.square().sum(-1, keepdim=True) / 2], -1)
    keywords = {"scale": 1 / root_width, "self_attention": self_attention}
    keywords["backend"] = backend
    _, phi = hierarchical_attention(
        long_q, long_k, v, hierarchy, return_energy=True, **keywords
    )
    energy = phi[hierarchy.roots[0]] + q.square().sum(-1).mean(0) / (2 * root_width)
    distance = (q[:, None] - k[None]).square().sum(-1).permute(2, 0, 1)
    _, expected = dense_theta(
        hierarchy, -distance / (2 * root_width), self_attention=self_attention
    )
    assert close(energy.detach(), expected[hierarchy.roots[0]].detach())
    (gradient,) = torch.autograd.grad(energy.sum(), q)
    theta = measured_theta(long_q.detach(), long_k, hierarchy, **keywords)
    attended = torch.einsum("hij,jhd->ihd", theta, k)
    assert close(leaves * root_width * gradient, q.detach() - attended)


@st.composite
def lengthened(draw):
    """A random forest, and the same one with chains of single children put in."""
    parent = draw(parent_vectors(max_nodes=10))
    number = parent.numel()
    below = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=5))
    longer = parent.tolist()
    top = list(range(number))
    for node in below:
        # A new node between the top of the node's chain and its parent.
        longer.append(longer[top[node]])
        longer[top[node]] = len(longer) - 1
        top[node] = len(longer) - 1
    return parent, torch.tensor(longer), torch.tensor(top)


@given(lengthened(), seeds)
def test_a_node_with_one_child_changes_nothing(backend, self_attention, pair, seed):
    parent, longer, _ = pair
    short = SignalHierarchy.from_parents(parent)
    long = SignalHierarchy.from_parents(longer)
    assert torch.equal(short.leaves, long.leaves)
    q, k, v = inputs(short, seed=seed)
    results = [
        hierarchical_attention(
            q,
            k,
            v,
            hierarchy,
            self_attention=self_attention,
            return_energy=True,
            backend=backend,
        )
        for hierarchy in (short, long)
    ]
    assert close(results[1][0], results[0][0])
    assert close(results[1][1][: parent.numel()], results[0][1])


@given(lengthened(), seeds)
def test_a_child_meets_its_siblings_with_the_position_of_its_chain(
    backend, self_attention, pair, seed
):
    """The top's eps for the siblings; a leaf's self score keeps its own."""
    parent, longer, top = pair
    short = SignalHierarchy.from_parents(parent)
    long = SignalHierarchy.from_parents(longer)
    q, k, v = inputs(short, seed=seed)
    position = positions(long, seed=seed)
    keywords = {"self_attention": self_attention, "backend": backend}
    y = hierarchical_attention(q, k, v, long, position=position, **keywords)
    # The short tree with the eps of the chains' tops, its diagonal set right.
    raw = dot_scores(q, k, q.size(2) ** -0.5)
    own = position[short.leaves].square().sum(-1)
    met = position[top[short.leaves]].square().sum(-1)
    raw = raw + torch.diag_embed(own - met)
    theta, _ = dense_theta(short, raw, position[top][:, None], self_attention)
    assert close(y, torch.einsum("hij,jhw->ihw", theta, v))


def test_a_leaf_below_a_spliced_node_by_hand(backend, self_attention):
    parent = torch.tensor([-1, 0, 0, 1])  # 0 -> (1 -> 3, 2); leaves 2 and 3
    hierarchy = SignalHierarchy.from_parents(parent)
    q, k, v = inputs(hierarchy, heads=1, width=1, value=1)
    position = torch.tensor([[9.0], [0.5], [-2.0], [0.25]], dtype=q.dtype)
    y = hierarchical_attention(
        q,
        k,
        v,
        hierarchy,
        position=position,
        self_attention=self_attention,
        backend=backend,
    )
    s = (q[:, 0] * k[:, 0].T) + torch.tensor([[4.0, -1.0], [-1.0, 0.0625]])
    if not self_attention:
        s.fill_diagonal_(float("-inf"))
    assert close(y[:, 0], s.softmax(-1) @ v[:, 0])


@given(parent_vectors(), st.data())
def test_relabelled_nodes_carry_their_results_along(
    backend, self_attention, parent, data
):
    """Node ids, the order of siblings and the order of leaves mean nothing."""
    new_id = torch.tensor(data.draw(st.permutations(range(parent.numel()))))
    one = SignalHierarchy.from_parents(parent)
    other = SignalHierarchy.from_parents(relabel(parent, new_id))
    q, k, v = inputs(one)
    position = positions(one)
    keywords = {"self_attention": self_attention, "backend": backend}
    keywords["return_energy"] = True
    y, phi = hierarchical_attention(q, k, v, one, position=position, **keywords)
    row = torch.searchsorted(other.leaves, new_id[one.leaves])
    moved = [torch.empty_like(x).index_copy_(0, row, x) for x in (q, k, v)]
    eps_moved = torch.empty_like(position).index_copy_(0, new_id, position)
    z, psi = hierarchical_attention(*moved, other, position=eps_moved, **keywords)
    assert close(z[row], y)
    assert close(psi[new_id], phi)


@given(st.lists(parent_vectors(max_nodes=8), min_size=2, max_size=4), seeds)
def test_a_batch_gives_each_tree_what_it_has_alone(
    backend, self_attention, parents, seed
):
    joined, starts = side_by_side(*parents)
    batch = SignalHierarchy.from_parents(joined)
    q, k, v = inputs(batch, seed=seed)
    position = positions(batch)
    keywords = {"self_attention": self_attention, "backend": backend}
    keywords["return_energy"] = True
    y, phi = hierarchical_attention(q, k, v, batch, position=position, **keywords)
    for parent, start in zip(parents, starts, strict=True):
        alone = SignalHierarchy.from_parents(parent)
        rows = (batch.leaves >= start) & (batch.leaves < start + parent.numel())
        nodes = slice(start, start + parent.numel())
        z, psi = hierarchical_attention(
            q[rows], k[rows], v[rows], alone, position=position[nodes], **keywords
        )
        # The oracle goes node by node, so that nothing but rounding could differ and
        # nothing does; matrix products of another shape may round otherwise.
        rtol = 0 if backend == "reference" else 1e-13
        assert close(y[rows], z, rtol)
        assert close(phi[nodes], psi, rtol)


@given(st.lists(parent_vectors(max_nodes=8), min_size=2, max_size=3), seeds)
def test_no_bit_of_a_tree_depends_on_its_neighbours(
    backend, self_attention, parents, seed
):
    joined, starts = side_by_side(*parents)
    batch = SignalHierarchy.from_parents(joined)
    first = batch.leaves < starts[1]
    results = []
    for disturbed in (False, True):
        q, k, v = inputs(batch, seed=seed)
        if disturbed:
            for x in (q, k, v):
                x[first] = 50 * x[first] + 1
        for x in (q, k, v):
            x.requires_grad_()
        y, phi = hierarchical_attention(
            q,
            k,
            v,
            batch,
            self_attention=self_attention,
            return_energy=True,
            backend=backend,
        )
        finite = phi[phi.isfinite()]
        grads = torch.autograd.grad(
            y.square().sum() + finite.sum(), (q, k, v), materialize_grads=True
        )
        results.append([phi[starts[1] :], *(x[~first] for x in (y, *grads))])
    for calm, noisy in zip(*results, strict=True):
        assert torch.equal(calm, noisy)
