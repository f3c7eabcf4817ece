"""From raw leaf features to leaf vectors, one encoder per leaf type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.nn.module_dict import ModuleDict

from hsa_pyg.hierarchy import CHILD_OF, SignalHierarchy
from hsa_pyg.nn.category_embedding import CategoryEmbedding
from hsa_pyg.nn.leaf_features import check_dtype


class LeafSchema(Protocol):
    """What an encoder reads of a :class:`~hsa_pyg.data.Schema`."""

    #: Attributes of every node type, each with the shape of a row and a dtype.
    nodes: Any

    @property
    def leaf_types(self) -> list[str]:
        """Node types that have features ``x``."""


class TokenEmbedding(torch.nn.Embedding):
    r"""A table of vectors for token ids, with entries of variance 1 / channels.

    :class:`torch.nn.Embedding` starts at variance 1, which drowns what the first
    layers of a residual network add to it.

    Args:
        num_tokens: Size of the vocabulary.
        channels: Size of the vectors.

    Shapes:
        - **input:** token ids :math:`(n)`
        - **output:** vectors :math:`(n, F)`
    """

    def __init__(self, num_tokens: int, channels: int) -> None:
        super().__init__(num_tokens, channels)

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        torch.nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)


class LeafEncoder(torch.nn.Module):
    r"""Encodes the leaves of each type into vectors of one size.

    Args:
        channels: Size of the vectors.
        vocab_sizes: Leaf types that hold token ids, with the size of the vocabulary;
            for rows of several ids a list with the size of each, encoded by
            :class:`~hsa_pyg.nn.CategoryEmbedding`.
        in_channels: Leaf types that hold vectors, with their size (-1 to derive it
            from the first input); encoded by a linear map.
        modules: Leaf types with a module of your own, which maps ``x`` of its type to
            [n, channels].

    Shapes:
        - **input:** per leaf type, token ids :math:`(n)`, vectors :math:`(n, F_{in})`,
          or what your module takes
        - **output:** :math:`(N, F)`, the leaves of all types in the order of the
          hierarchy's leaf rows

    Raises:
        ValueError: if a type has no encoder or several.

    .. code-block:: python

        >>> LeafEncoder(64, vocab_sizes={"token": 1000}, in_channels={"image": 512})
        LeafEncoder(64, token=TokenEmbedding(1000, 64),
            image=Linear(512, 64, bias=True))
    """

    def __init__(
        self,
        channels: int,
        *,
        vocab_sizes: Mapping[str, int | Sequence[int]] | None = None,
        in_channels: Mapping[str, int] | None = None,
        modules: Mapping[str, torch.nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.channels = channels
        given = [
            *(vocab_sizes or {}).keys(),
            *(in_channels or {}).keys(),
            *(modules or {}).keys(),
        ]
        twice = {name for name in given if given.count(name) > 1}
        if twice or not given:
            raise ValueError(
                f"leaf types {sorted(twice)} have more than one encoder"
                if twice
                else "no leaf type has an encoder; give vocab_sizes, in_channels or "
                "modules"
            )
        self.encoders = ModuleDict(
            {
                **{
                    name: _table(size, channels)
                    for name, size in (vocab_sizes or {}).items()
                },
                **{
                    name: Linear(size, channels)
                    for name, size in (in_channels or {}).items()
                },
                **(modules or {}),
            }
        )

    @classmethod
    def from_schema(
        cls,
        schema: LeafSchema,
        channels: int,
        vocab_sizes: Mapping[str, int | Sequence[int]] | None = None,
    ) -> LeafEncoder:
        r"""An embedding table or a linear map for each leaf type of a data set.

        Args:
            schema: The data set's :class:`~hsa_pyg.data.Schema`.
            channels: Size of the vectors.
            vocab_sizes: Size of the vocabulary of every leaf type of token ids, or a
                list of sizes for rows of several ids.

        Raises:
            TypeError: if ``schema`` or ``vocab_sizes`` is something else.
            ValueError: if no type has features, or they are neither token ids with a
                vocabulary nor vectors.
        """
        if not hasattr(schema, "leaf_types") or not hasattr(schema, "nodes"):
            raise TypeError(
                f"schema must be a Schema, got {type(schema).__name__}; pass "
                "signal.schema, or hsa_pyg.data.union_schema(signals)"
            )
        if vocab_sizes is not None and not isinstance(vocab_sizes, Mapping):
            raise TypeError(
                f"vocab_sizes must be a dictionary {{leaf type: size}}, got "
                f"{vocab_sizes!r}"
            )
        if not schema.leaf_types:
            raise ValueError(_no_leaf_type(schema))
        vocab_sizes = dict(vocab_sizes or {})
        unknown = [name for name in vocab_sizes if name not in schema.leaf_types]
        if unknown:
            raise ValueError(
                f"vocab_sizes names {unknown}, but the leaf types are "
                f"{schema.leaf_types}"
            )
        in_channels = {}
        for name in schema.leaf_types:
            feature = schema.nodes[name]["x"]
            if name in vocab_sizes:
                _check_sizes(name, feature, vocab_sizes[name])
                continue
            floats = getattr(feature.dtype, "is_floating_point", False)
            if floats and len(feature.shape) != 1:
                remedy = "x[:, None]" if not feature.shape else "x.flatten(1)"
                raise ValueError(
                    f"leaf type {name!r} holds {feature.dtype} rows of shape "
                    f"{feature.shape}, but a linear map takes vectors: use {remedy}, "
                    "or build a LeafEncoder with a module for it"
                )
            if not floats:
                raise ValueError(
                    f"leaf type {name!r} holds {feature.dtype} rows of shape "
                    f"{feature.shape}: give its size in vocab_sizes if they are token "
                    "ids (a list of sizes for rows of several ids), or build a "
                    "LeafEncoder with a module for it"
                )
            in_channels[name] = feature.shape[0]
        return cls(channels, vocab_sizes=vocab_sizes, in_channels=in_channels)

    @property
    def leaf_types(self) -> list[str]:
        """The leaf types that have an encoder."""
        return list(self.encoders.keys())

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        for module in self.encoders.values():
            reset(module)

    def forward(
        self, x_dict: Mapping[str, Tensor], hierarchy: SignalHierarchy
    ) -> Tensor:
        r"""Encode the leaves of a batch.

        Args:
            x_dict: Features of each leaf type; a type without leaves may be absent.
            hierarchy: The forest of the leaves, with node types.

        Raises:
            ValueError: if a leaf type lacks features or an encoder, or an encoder
                gives another number of rows or channels than it should, or is given
                vectors of another width or dtype.
            IndexError: if a token id is out of the vocabulary.
        """
        vectors = []
        for name, (start, stop) in hierarchy.leaf_slices.items():
            if stop == start:
                continue
            if name not in self.encoders or name not in x_dict:
                lacking = "features" if name in self.encoders else "an encoder"
                remedy = (
                    f"; give x_dict[{name!r}] a row for each"
                    if name in self.encoders
                    else ". Build the encoder or model from the schema of all signals, "
                    "hsa_pyg.data.union_schema(signals)"
                )
                raise ValueError(
                    f"the {stop - start} leaves of type {name!r} lack {lacking}; there "
                    f"are encoders for {self.leaf_types}{remedy}"
                )
            out = self._encode(name, x_dict[name])
            if out.shape != (stop - start, self.channels):
                raise ValueError(
                    f"the encoder of leaf type {name!r} must give shape "
                    f"{(stop - start, self.channels)}, got {tuple(out.shape)}"
                )
            vectors.append(out)
        if not vectors:
            if hierarchy.num_leaves > 0:
                raise ValueError(
                    "the hierarchy knows no node types, so its leaves find no encoder; "
                    "build it by SignalHierarchy.from_edge_index"
                )
            dtype = next((p.dtype for p in self.parameters()), None)
            return torch.zeros(0, self.channels, dtype=dtype, device=hierarchy.device)
        return vectors[0] if len(vectors) == 1 else torch.cat(vectors)

    def _encode(self, name: str, x: Tensor) -> Tensor:
        module = self.encoders[name]
        if isinstance(module, TokenEmbedding):
            return _look_up(module, x, name)
        if isinstance(module, Linear):
            _check_vectors(module, x, name)
        return module(x)

    def __repr__(self) -> str:
        encoders = ", ".join(f"{name}={mod}" for name, mod in self.encoders.items())
        return f"{self.__class__.__name__}({self.channels}, {encoders})"


def _no_leaf_type(schema: LeafSchema) -> str:
    edges = getattr(schema, "edges", {})
    parents = {kind[2] for kind in edges if kind[1] == CHILD_OF}
    childless = [name for name in schema.nodes if name not in parents]
    remedy = f"set signal[{childless[0]!r}].x" if childless else "give the leaves x"
    return (
        f"none of the types {list(schema.nodes)} has features 'x', so there is no leaf "
        f"to encode; {remedy}"
    )


def _table(size: int | Sequence[int], channels: int) -> torch.nn.Module:
    if isinstance(size, int):
        return TokenEmbedding(size, channels)
    return CategoryEmbedding(size, channels)


def _check_sizes(name: str, feature: Any, size: int | Sequence[int]) -> None:
    columns: str = "one id a row"
    wanted: tuple[int, ...] = ()
    if not isinstance(size, int):
        columns, wanted = f"{len(size)} ids a row", (len(size),)
    if feature.shape != wanted:
        raise ValueError(
            f"vocab_sizes[{name!r}] is for {columns}, but leaf type {name!r} has rows "
            f"of shape {feature.shape}: give a number for token ids [n], and a list of "
            "K numbers for ids [n, K]"
        )


def _look_up(table: TokenEmbedding, ids: Tensor, name: str) -> Tensor:
    if ids.dtype not in (torch.int32, torch.int64) or ids.dim() != 1:
        raise ValueError(
            f"leaf type {name!r} must hold token ids [n] of int64 or int32, got "
            f"{ids.dtype} of shape {tuple(ids.shape)}; list it under in_channels if it "
            "holds vectors"
        )
    try:
        return table(ids)
    except IndexError as error:
        # Looked for only now, so that nothing waits for the device.
        size = table.num_embeddings
        leaf = int(((ids < 0) | (ids >= size)).nonzero()[0])
        raise IndexError(
            f"leaf {leaf} of type {name!r} has the token id {int(ids[leaf])}, but the "
            f"vocabulary has the ids 0 to {size - 1}; raise vocab_sizes[{name!r}], or "
            "give tokens out of it an id for unknown ones"
        ) from error


def _check_vectors(lin: Linear, x: Tensor, name: str) -> None:
    if x.dim() != 2 or (lin.in_channels > 0 and x.size(1) != lin.in_channels):
        width = lin.in_channels if lin.in_channels > 0 else "channels"
        raise ValueError(
            f"leaf type {name!r} must hold vectors of shape [n, {width}], got "
            f"{tuple(x.shape)}"
        )
    check_dtype(x, lin.weight, f"x[{name!r}]")
