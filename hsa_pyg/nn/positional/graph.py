"""Positions in a graph of siblings, from its random walks or its Laplacian."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.transforms import AddRandomWalkPE
from torch_geometric.utils import to_dense_adj, to_undirected

GraphKind = Literal["random_walk", "laplacian"]


class GraphPosition(torch.nn.Module):
    r"""Position of a child in the graph that its family forms.

    ``"random_walk"`` maps the probabilities that a walk of 1, ..., ``num_features``
    steps returns to its start (:class:`~torch_geometric.transforms.AddRandomWalkPE`),
    on the edges as they are directed.

    ``"laplacian"`` uses the eigenvectors :math:`u_k` with the smallest positive
    eigenvalues of each family's symmetric normalised Laplacian, edges taken as
    undirected. The sign of an eigenvector is arbitrary, so the map is even in it, the
    mean over k of :math:`\phi(u_{ik}, \lambda_k) + \phi(-u_{ik}, \lambda_k)` (as in
    SignNet, `arXiv 2202.13013 <https://arxiv.org/abs/2202.13013>`_). Where an
    eigenvalue is repeated its eigenvectors are arbitrary beyond the sign; random walks
    are not.

    Edges between different families belong to no domain and play no part.

    Args:
        channels: Size P of the positional embedding.
        kind: ``"random_walk"`` or ``"laplacian"``.
        num_features: Number of steps, or of eigenvectors.

    Shapes:
        - **input:** edges :math:`(2, E)`, family of each node :math:`(n)`
        - **output:** :math:`(n, P)`
    """

    def __init__(
        self, channels: int, kind: GraphKind = "random_walk", num_features: int = 8
    ) -> None:
        super().__init__()
        if kind not in ("random_walk", "laplacian"):
            raise ValueError(
                f"'kind' must be 'random_walk' or 'laplacian', got {kind!r}"
            )
        self.channels = channels
        self.kind = kind
        self.num_features = num_features
        self.hidden: torch.nn.Module = torch.nn.Identity()
        width = num_features
        if kind == "laplacian":
            width = 2 * channels
            self.hidden = torch.nn.Sequential(Linear(2, width), torch.nn.GELU())
        self.last = Linear(width, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.hidden)
        # So that positions start with a norm of order 1 whatever their size.
        fan_in = 1 if self.kind == "random_walk" else self.last.in_channels
        torch.nn.init.normal_(self.last.weight, std=(self.channels * fan_in) ** -0.5)
        torch.nn.init.zeros_(self.last.bias)

    def forward(self, edge_index: Tensor, family: Tensor) -> Tensor:
        r"""Embed the members of all families.

        Args:
            edge_index: Edges between members [2, E].
            family: Family of each member [n], any integers.

        Raises:
            IndexError: if an edge names a member that is not there.
        """
        if edge_index.numel() and int(edge_index.max()) >= family.numel():
            raise IndexError(
                f"an edge names member {int(edge_index.max())}, but the families have "
                f"{family.numel()} members"
            )
        edge_index = edge_index[:, family[edge_index[0]] == family[edge_index[1]]]
        dtype = self.last.weight.dtype
        if self.kind == "random_walk":
            walks = random_walk_features(edge_index, family.numel(), self.num_features)
            return self.last(walks.to(dtype))
        vector, value, real = (
            x.to(dtype)
            for x in laplacian_features(edge_index, family, self.num_features)
        )
        even = sum(
            self.hidden(torch.stack([sign * vector, value], dim=-1)) for sign in (1, -1)
        )
        number = real.sum(dim=1, keepdim=True).clamp(min=1)
        return self.last((even * real[..., None]).sum(dim=1) / number)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels}, kind={self.kind!r})"


def random_walk_features(edge_index: Tensor, num_nodes: int, steps: int) -> Tensor:
    """Probabilities that a walk returns after 1, ..., ``steps`` steps: [n, steps]."""
    if num_nodes == 0:
        return torch.zeros(0, steps, device=edge_index.device)
    data = Data(edge_index=edge_index, num_nodes=num_nodes)
    return AddRandomWalkPE(steps, attr_name="walk")(data).walk


def laplacian_features(
    edge_index: Tensor, family: Tensor, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvectors with the smallest positive eigenvalues of each family's Laplacian.

    Those of eigenvalue 0, one for each connected component, tell no more than degrees.

    All families are decomposed at once, padded to the largest.

    Args:
        edge_index: [2, E] edges inside families, taken as undirected.
        family: [n] family of each node, any integers.
        number: eigenvectors per family.

    Returns:
        The entry of every node in each eigenvector, scaled by the root of the family's
        size [n, number], the eigenvalues of its family [n, number], and whether the
        family has such an eigenvector [n, number].
    """
    num_nodes = family.numel()
    if num_nodes == 0:
        empty = torch.zeros(0, number, device=family.device)
        return empty, empty, empty.bool()
    family = torch.unique(family, return_inverse=True)[1]
    order = torch.argsort(family, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(num_nodes, device=order.device)
    size = torch.bincount(family)
    edge_index = to_undirected(rank[edge_index], num_nodes=num_nodes)
    adjacency = to_dense_adj(edge_index, batch=family[order]).clamp(max=1.0).double()
    degree = adjacency.sum(-1)
    root = torch.where(degree > 0, degree, 1.0).rsqrt()
    slot = torch.arange(adjacency.size(1), device=order.device)
    # Padding goes behind every eigenvalue of a normalised Laplacian, which are <= 2.
    diagonal = torch.where(slot < size[:, None], (degree > 0).double(), 3.0)
    laplacian = diagonal.diag_embed() - root[..., None] * adjacency * root[:, None]
    value, vector = torch.linalg.eigh(laplacian)
    # A family of c components has c zeros in front, up to rounding.
    first = (value < 1e-6).sum(dim=-1, keepdim=True)
    wanted = first + torch.arange(number, device=order.device)
    real = wanted < size[:, None]
    column = wanted.clamp(max=value.size(1) - 1)
    value = value.gather(1, column) * real
    vector = vector.gather(2, column[:, None].expand(-1, vector.size(1), -1))
    place = rank - (size.cumsum(0) - size)[family]
    scale = size.double().sqrt()[family, None]
    return vector[family, place] * scale * real[family], value[family], real[family]
