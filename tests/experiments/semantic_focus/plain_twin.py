"""The model of the protocol once more, from torch's own layers, with dense masks."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def masks(kind, length, k=None, width=None, num_global=0):
    """[length, length] which keys a query sees; None where it depends on scores."""
    if kind == "topk":
        return None
    seen = torch.zeros(length, length, dtype=torch.bool)
    free = length - num_global
    for query in range(length):
        if kind == "full" or query >= free:
            seen[query] = True
            continue
        if kind == "banded":
            first = min(max(query - (width - 1) // 2, 0), free - width)
        else:
            first = query - query % width
        seen[query, first : first + width] = True
        seen[query, free:] = True
    return seen


class PlainBlock(nn.Module):
    def __init__(self, width, heads, hidden, act):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, 64 * heads)
        self.k = nn.Linear(width, 64 * heads)
        self.v = nn.Linear(width, 64 * heads)
        self.o = nn.Linear(64 * heads, width)
        self.one = nn.Linear(width, hidden)
        self.two = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.act = act

    def split(self, x):
        return x.unflatten(-1, (self.heads, 64)).transpose(1, 2)

    def forward(self, x, seen, k):
        y = self.norm(x)
        q, key, v = (self.split(layer(y)) for layer in (self.q, self.k, self.v))
        scores = q @ key.transpose(-1, -2) / math.sqrt(64)
        if seen is None:
            least = scores.topk(k, -1).values[..., -1:]
            seen = scores >= least
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        x = x + self.o((weights @ v).transpose(1, 2).flatten(2))
        return x + self.two(self.act(self.one(self.norm(x))))


class PlainModel(nn.Module):
    def __init__(self, shape):
        super().__init__()
        act = {"relu": F.relu, "gelu": F.gelu, "mish": F.mish}[shape.activation]
        self.embedding = nn.Embedding(shape.vocab_size, shape.channels)
        self.blocks = nn.ModuleList(
            PlainBlock(shape.channels, shape.heads, shape.hidden, act)
            for _ in range(shape.blocks)
        )
        self.classifier = nn.Linear(shape.channels, shape.num_classes)

    def forward(self, tokens, seen, k=None):
        length, channels = tokens.size(1), self.embedding.weight.size(1)
        x = 8 * self.embedding(tokens) if channels == 64 else None
        for place in range(length):
            for i in range(0, channels, 2):
                angle = place / 10_000 ** (i / channels)
                x[:, place, i] += math.sin(angle)
                x[:, place, i + 1] += math.cos(angle)
        for block in self.blocks:
            x = block(x, seen, k)
        return self.classifier(x.mean(1))

    def copy_from(self, model):
        """Take over the weights of a FocusTransformer."""
        pairs = [(self.embedding, model.embedding), (self.classifier, model.classifier)]
        with torch.no_grad():
            for mine, theirs in zip(self.blocks, model.blocks, strict=True):
                fused, *others = theirs
                for layer, weight, bias in zip(
                    (mine.q, mine.k, mine.v),
                    fused.weight.chunk(3),
                    fused.bias.chunk(3),
                    strict=True,
                ):
                    layer.weight.copy_(weight)
                    layer.bias.copy_(bias)
                pairs += zip((mine.o, mine.one, mine.two), others, strict=True)
            for mine, theirs in pairs:
                mine.load_state_dict(theirs.state_dict())

    def gradients(self):
        """Of the parameters, in the order of a FocusTransformer's."""
        grads = [self.embedding.weight.grad]
        for b in self.blocks:
            grads.append(torch.cat([x.weight.grad for x in (b.q, b.k, b.v)]))
            grads.append(torch.cat([x.bias.grad for x in (b.q, b.k, b.v)]))
            for layer in (b.o, b.one, b.two):
                grads += [layer.weight.grad, layer.bias.grad]
        return [*grads, self.classifier.weight.grad, self.classifier.bias.grad]
