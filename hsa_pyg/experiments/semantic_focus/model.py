"""The transformer of the semantic focus experiments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from hsa_pyg.experiments.semantic_focus.attention import (
    HEAD,
    BlockAttention,
    draw_dropped,
)
from hsa_pyg.experiments.semantic_focus.block import ACTIVATIONS, BlockFunction
from hsa_pyg.experiments.semantic_focus.dropping import Dropper

#: Weights of the embedding and of the classifier are uniform between -this and this.
_INIT = 0.1


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a model.

    Args:
        vocab_size: Number of token ids.
        num_classes: Number of classes.
        blocks: Number of blocks.
        heads: Number of heads, each of 64 channels whatever the width.
        channels: Width of the model.
        hidden: Width of the MLPs.
        activation: ``"relu"``, ``"gelu"`` or ``"mish"``.
    """

    vocab_size: int
    num_classes: int
    blocks: int = 5
    heads: int = 1
    channels: int = 64
    hidden: int = 64
    activation: str = "relu"


class FocusTransformer(nn.Module):
    r"""A pre-norm transformer that classifies sequences by the mean of their tokens.

    .. math:: x = \sqrt C \, \mathrm{Emb}(token) + \mathrm{sinusoid}(place)

    then blocks ``x + drop(W_o attention(norm(x)))``, ``x + drop(W_2 act(drop(W_1
    norm(x))))`` without a norm behind the last, whose tokens' mean goes into a linear
    classifier. Norms have no parameters. Embedding and classifier start uniform in
    (-0.1, 0.1), the classifier's bias at 0, other layers as PyTorch has it.

    Args:
        shape: Sizes.
        dropout: Probability of what is dropped: of the embedded tokens, the attention
            weights, and the outputs of the three other linear layers of each block.
        generator: What dropout is drawn from.

    Shapes:
        - **tokens:** ``[num_sequences, length]`` ids
        - **output:** ``[num_sequences, num_classes]``

    Raises:
        ValueError: if the activation is not known, or the width is odd.
    """

    def __init__(
        self,
        shape: ModelShape,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if shape.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {list(ACTIVATIONS)}, got "
                f"{shape.activation!r}"
            )
        if shape.channels % 2:
            raise ValueError(f"the width must be even, got {shape.channels}")
        self.shape = shape
        self.dropper = Dropper(dropout, generator or torch.Generator())
        self.embedding = nn.Embedding(shape.vocab_size, shape.channels)
        wide = HEAD * shape.heads
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    # Queries, keys and values start as three layers of their own would.
                    nn.Linear(shape.channels, 3 * wide),
                    nn.Linear(wide, shape.channels),
                    nn.Linear(shape.channels, shape.hidden),
                    nn.Linear(shape.hidden, shape.channels),
                ]
            )
            for _ in range(shape.blocks)
        )
        self.classifier = nn.Linear(shape.channels, shape.num_classes)
        nn.init.uniform_(self.embedding.weight, -_INIT, _INIT)
        nn.init.uniform_(self.classifier.weight, -_INIT, _INIT)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, tokens: Tensor, attention: BlockAttention) -> Tensor:
        """Logits of sequences, whose attention is given for them."""
        number, length = tokens.shape
        shape, drop = self.shape, self.training and self.dropper.probability > 0
        x = self.embedding(tokens) * math.sqrt(shape.channels)
        x = (x + sinusoid(length, shape.channels).to(x)).flatten(0, 1)
        dropped: list = [None] * shape.blocks
        if drop:
            sizes = x.size(0), shape.channels, shape.blocks
            hit, dropped = draw_dropped(self.dropper, attention, sizes, shape.heads)
            x = (x * self.dropper.scale).view(-1).index_fill(0, hit, 0.0).view_as(x)
        for block, here in zip(self.blocks, dropped, strict=True):
            weights = block.parameters()
            x = BlockFunction.apply(x, attention, shape.activation, here, *weights)
        return self.classifier(x.view(number, length, -1).mean(1))


@lru_cache(maxsize=16)
def sinusoid(length: int, channels: int) -> Tensor:
    """Sines and cosines of the places, ``[length, channels]``, alternating."""
    place = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, channels, 2) * (-math.log(10_000.0) / channels))
    table = torch.empty(length, channels)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)
    return table
