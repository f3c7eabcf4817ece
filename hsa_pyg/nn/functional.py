r"""Hierarchical self-attention as a function of queries, keys and values."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import torch
from torch import Tensor

from hsa_pyg import ops
from hsa_pyg.hierarchy import SignalHierarchy, check_is_hierarchy
from hsa_pyg.ops.focus import Focus
from hsa_pyg.ops.patterns import Pattern, banded, blocklocal

__all__ = ["banded", "blocklocal", "hierarchical_attention"]


@overload
def hierarchical_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = ...,
    position: Tensor | None = ...,
    scale: float | None = ...,
    dropout: float = ...,
    return_energy: Literal[False] = ...,
    top_k: int | None = ...,
    top_k_includes_self: bool = ...,
    tie_queries: bool = ...,
    causal: bool = ...,
    backend: str = ...,
    pattern: Pattern | None = ...,
) -> Tensor: ...


@overload
def hierarchical_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = ...,
    position: Tensor | None = ...,
    scale: float | None = ...,
    dropout: float = ...,
    return_energy: Literal[True],
    top_k: int | None = ...,
    top_k_includes_self: bool = ...,
    tie_queries: bool = ...,
    causal: bool = ...,
    backend: str = ...,
    pattern: Pattern | None = ...,
) -> tuple[Tensor, Tensor]: ...


def hierarchical_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hierarchy: SignalHierarchy,
    *,
    self_attention: bool = True,
    position: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    return_energy: bool = False,
    top_k: int | None = None,
    top_k_includes_self: bool = False,
    tie_queries: bool = True,
    causal: bool = False,
    backend: str = "auto",
    pattern: Pattern | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Hierarchical self-attention over the leaves of a forest.

    From `"Hierarchical Self-Attention: Generalizing Neural Attention Mechanics to
    Multi-Scale Problems" <https://arxiv.org/abs/2509.15448>`_ (Amizadeh et al., 2025):
    among the attention matrices that are constant between the leaves of any two
    siblings, :math:`y = \Theta v` uses the one that is closest to softmax attention in
    KL divergence (Theorem 3.2). On a tree with one family it is softmax attention.
    Time is linear in the leaves for families of bounded size, and so is memory.

    .. math::
        s(B, C) &= c \, \bar q_B \cdot \bar k_C + \epsilon_B \cdot \epsilon_C \\
        \phi(A) &= - \sum_{B \in chd(A)} \tfrac{n_B}{n_A} \log \Big[
        e^{-\phi(B)} + \sum_{C \in sib(B)} n_C e^{s(B, C)} \Big]

    with :math:`\bar q, \bar k` the means over the leaves below a node, and
    :math:`\phi(i) = -s(i, i)` for a leaf.

    Args:
        q: queries of the leaves, in the order of ``hierarchy.leaves``.
        k: keys of the leaves.
        v: values of the leaves.
        hierarchy: the compiled forest.
        self_attention: whether a leaf attends to itself. ``False`` is the paper's own
            form (Eq. 8 and Algorithm 3; :math:`\phi(i) = \infty`); a tree of one leaf
            then has no key and gives 0.
        position: positional embedding :math:`\epsilon` of each node in its parent's
            domain, for all heads or per head.
        scale: the factor c; by default :math:`1 / \sqrt D`.
        dropout: probability with which a weight (of a sibling's block, or of a leaf on
            itself) is dropped; the rest is scaled up. Always applied as given: pass 0
            in evaluation.
        return_energy: also return the energy :math:`\phi` of every node.
        top_k: keep, for every node, its own column and the ``top_k`` siblings with the
            largest :math:`s(B, C) + \log n_C`, per head; the others get weight 0. That
            is the closest such matrix to softmax attention in which every node attends
            to so many siblings. Of equal scores the sibling with the smaller node id is
            kept. The choice takes no gradient. On a CPU it takes about as long as
            attending to all, and less in families of a thousand
            (docs/benchmarks/focus.md).
        top_k_includes_self: a leaf itself is one of the ``top_k``, chosen by its own
            score, rather than kept beside them. On a tree with one family this is
            top-k softmax attention as in `"Transformers Learn Faster with Semantic
            Focus" <https://arxiv.org/abs/2506.14095>`_ (Ram et al., 2025).
        tie_queries: whether all leaves below a node meet its siblings with one query,
            their mean. ``False``: each with its own, in one softmax over itself and
            all blocks that hang off its root path (docs/mathematics.md, section 9).
            Never farther from softmax attention, but time grows with the depth, too.
            ``phi`` of a node is then the mean over its leaves of what their softmax
            sums up below it, as -log.
        causal: a node sees no sibling with a larger node id. Queries are then untied,
            whatever ``tie_queries`` says: a mean query would know of later leaves.
        backend: ``"auto"`` takes the fastest that runs here: on a CPU ``"cpp"`` (C++,
            compiled by the machine's own compiler on first use), on a GPU
            ``"triton"``, elsewhere or where these cannot be had (a warning says why)
            ``"torch"``. ``"reference"`` is the definition, node by node, slow. One that
            is asked for by name is never replaced.
        pattern: :func:`banded` or :func:`blocklocal`: every node sees the members of
            its family that stand in its window or block, whatever their scores, as
            the fixed patterns of the same paper. By ``"torch"`` and ``"reference"``.

    Shapes:
        - **q, k:** :math:`(N, H, D)`
        - **v:** :math:`(N, H, D_v)`
        - **position:** :math:`(M, P)` or :math:`(M, H, P)`
        - **output:** :math:`(N, H, D_v)`, in the dtype of ``v`` (under autocast, in
          autocast's); with ``return_energy`` a pair with :math:`(M, H)`, float32 or
          wider, 0 for nodes without leaves.

    Raises:
        TypeError: for an argument that is no tensor of floating point numbers, for
            mixed dtypes, a ``hierarchy`` that is none, or a ``scale`` or ``dropout``
            that is no number.
        ValueError: for shapes, devices, a dropout or a backend that do not fit; for a
            ``pattern`` with ``top_k``, or one that could leave a leaf without a key.
        NotImplementedError: for untied queries with ``top_k`` or ``pattern``; for them
            or a ``pattern`` with a backend other than ``"torch"`` and ``"reference"``;
            for forward-mode differentiation by any backend but ``"reference"``.

    Example:
        >>> import torch
        >>> from hsa_pyg import SignalHierarchy, hierarchical_attention
        >>> h = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1]))
        >>> q, k, v = torch.randn(3, h.num_leaves, 8, 16)  # 3 leaves, 8 heads of 16
        >>> hierarchical_attention(q, k, v, h).shape
        torch.Size([3, 8, 16])
    """
    tied = queries_are_tied(tie_queries, causal, top_k, pattern)
    focus = make_focus(top_k, top_k_includes_self, self_attention)
    check_pattern(pattern, top_k, self_attention)
    _check_inputs(q, k, v, hierarchy)
    _check_numbers(scale, dropout)
    if torch.is_autocast_enabled(q.device.type) and q.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(q.device.type)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if position is not None:
        position = _expand_position(position, q, hierarchy)
    if scale is None:
        scale = 1.0 / math.sqrt(q.size(2))
    options: dict[str, Any] = {
        "self_attention": self_attention,
        "position": position,
        "scale": scale,
        "dropout": dropout,
        "energy": return_energy,
        "backend": backend,
    }
    if tied:
        kept: dict[str, Any] = {"focus": focus, "pattern": pattern}
        y, phi = ops.hierarchical_attention(q, k, v, hierarchy, **kept, **options)
    else:
        y, phi = ops.untied_attention(q, k, v, hierarchy, causal=causal, **options)
    return y if phi is None else (y, phi)


def make_focus(
    top_k: int | None, includes_self: bool, self_attention: bool
) -> Focus | None:
    """Check ``top_k`` and ``top_k_includes_self`` and join them; None keeps all.

    Raises:
        TypeError: if ``top_k`` is no integer.
        ValueError: if it is out of range, or a leaf shall compete that does not attend
            to itself.
    """
    if top_k is None:
        if includes_self:
            raise ValueError("top_k_includes_self=True needs top_k; give both")
        return None
    if isinstance(top_k, bool) or not isinstance(top_k, int):
        raise TypeError(f"top_k must be an integer or None, got {top_k!r}")
    least = 2 if includes_self else 1
    if top_k < least:
        raise ValueError(
            f"top_k must be at least {least}"
            f"{', of which one may be the leaf itself' if includes_self else ''}, got "
            f"{top_k}; top_k=None keeps all siblings"
        )
    if includes_self and not self_attention:
        raise ValueError(
            "top_k_includes_self=True needs self_attention=True: without it no leaf "
            "attends to itself"
        )
    return Focus(top_k, bool(includes_self))


def check_pattern(
    pattern: Pattern | None, top_k: int | None, self_attention: bool
) -> None:
    """Refuse what is no pattern, and what does not go with one.

    Raises:
        TypeError: if ``pattern`` is none.
        ValueError: for ``top_k`` beside it, or if a leaf that does not attend to itself
            might see no other.
    """
    if pattern is None:
        return
    if not isinstance(pattern, Pattern):
        raise TypeError(
            f"pattern must be banded(width), blocklocal(width) or None, got {pattern!r}"
        )
    if top_k is not None:
        raise ValueError(
            "pattern and top_k both say which siblings a node attends to; leave one "
            "of them out"
        )
    if not self_attention and not pattern.leaves_none_alone:
        raise ValueError(
            f"{pattern} may leave a leaf alone, which with self_attention=False has no "
            "key; take self_attention=True, num_global=1 or more, or a wider band"
        )


def check_positive(name: str, value: Any) -> None:
    """Check that an argument is a whole number of at least 1.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is less than 1.
    """
    if not hasattr(value, "__index__"):
        raise TypeError(f"{name!r} must be an integer, got {value!r}; use int({name})")
    if value < 1:
        raise ValueError(f"{name!r} must be at least 1, got {value}")


def queries_are_tied(
    tie_queries: bool, causal: bool, top_k: int | None, pattern: Pattern | None
) -> bool:
    """Whether leaves share queries: as ``tie_queries`` says, but never if causal.

    Raises:
        TypeError: for a switch that is neither True nor False.
        NotImplementedError: for ``top_k`` or ``pattern`` with untied queries.
    """
    for name, switch in (("tie_queries", tie_queries), ("causal", causal)):
        if not isinstance(switch, bool):
            raise TypeError(f"{name} must be True or False, got {switch!r}")
    tied = tie_queries and not causal
    for name, given in (("top_k", top_k), ("pattern", pattern)):
        if not tied and given is not None:
            untied = "causal=True" if causal else "tie_queries=False"
            raise NotImplementedError(
                f"{name} is not available with {untied}; leave one of them out"
            )
    return tied


def _check_numbers(scale: float | None, dropout: float) -> None:
    if isinstance(scale, Tensor):
        # Taken as a number it would never receive its gradient.
        raise TypeError(
            f"scale must be a number, got a tensor of shape {tuple(scale.shape)}; a "
            "scale that is learned multiplies q: pass q * scale and scale=1.0"
        )
    for name, value in (("scale", scale), ("dropout", dropout)):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number and not (name == "scale" and value is None):
            raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout must lie between 0 and 1, got {dropout}")


def _check_inputs(q: Tensor, k: Tensor, v: Tensor, hierarchy: SignalHierarchy) -> None:
    check_is_hierarchy(hierarchy)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
        if x.dim() != 3:
            raise ValueError(
                f"{name} must have shape [num_leaves, heads, channels], got "
                f"{tuple(x.shape)}"
            )
        if not x.is_floating_point():
            raise TypeError(f"{name} must hold floating point numbers, got {x.dtype}")
        if x.size(0) != hierarchy.num_leaves:
            raise ValueError(
                f"{name} has {x.size(0)} rows, but the hierarchy has "
                f"{hierarchy.num_leaves} leaves; give one row per leaf, in the order "
                "of hierarchy.leaves"
            )
        if x.device != hierarchy.device:
            raise ValueError(
                f"{name} is on {x.device}, but the hierarchy is on {hierarchy.device}; "
                "move one of them with .to(device)"
            )
    if k.shape != q.shape:
        raise ValueError(
            f"q {tuple(q.shape)} and k {tuple(k.shape)} must have the same shape"
        )
    if v.size(1) != q.size(1):
        raise ValueError(
            f"v {tuple(v.shape)} must have as many heads as q {tuple(q.shape)}"
        )
    for name, x in (("q", q), ("v", v)):
        if x.size(1) == 0 or x.size(2) == 0:
            raise ValueError(
                f"{name} {tuple(x.shape)} must have at least one head and one channel"
            )
    autocast = torch.is_autocast_enabled(q.device.type)
    if not autocast and not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"q ({q.dtype}), k ({k.dtype}) and v ({v.dtype}) must have the same dtype; "
            "convert them with .to(dtype) or run under torch.autocast"
        )


def _expand_position(position: Tensor, q: Tensor, hierarchy: SignalHierarchy) -> Tensor:
    """[M, 1 or H, P]."""
    if not isinstance(position, Tensor):
        raise TypeError(f"position must be a tensor, got {type(position).__name__}")
    if not position.is_floating_point():
        raise TypeError(
            f"position must hold floating point numbers, got {position.dtype}"
        )
    given, nodes, heads = position, hierarchy.num_nodes, q.size(1)
    if position.dim() == 2:
        position = position.unsqueeze(1)
    fits = position.dim() == 3 and position.size(0) == nodes
    if not fits or position.size(1) not in (1, heads):
        raise ValueError(
            f"position must have shape [num_nodes, channels] = [{nodes}, P] or "
            f"[num_nodes, heads, channels] = [{nodes}, {heads}, P], got "
            f"{tuple(given.shape)}"
        )
    if position.device != q.device:
        raise ValueError(
            f"position is on {position.device}, but q is on {q.device}; move it with "
            ".to(device)"
        )
    return position
