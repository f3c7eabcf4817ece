# %% [markdown]
# # HSAConv in a PyG model
#
# At the end you will have seen what hierarchical self-attention (HSA) makes of a
# softmax attention matrix, and have a model of your own with `GATConv` and `HSAConv` in
# it, trained on batches.
#
# **You need** `pip install -e ".[all,notebooks]"` in a clone, and to know PyTorch
# Geometric. The data are made here.

# %%
import torch
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

plt.rcParams["figure.dpi"] = 90

# %% [markdown]
# ## A tree
#
# A review of two paragraphs, with two sentences each. Every node but the root has a
# parent: the tree is written down as a list of parents, -1 for the root.

# %%
from hsa_pyg import SignalHierarchy

review = [["a slow start", "then it soars"], ["the music stays", "the plot does not"]]
words, parents = [], [-1]
for paragraph in review:
    parents.append(0)
    top = len(parents) - 1
    for sentence in paragraph:
        parents.append(top)
        parents += [len(parents) - 1] * len(sentence.split())
        words += sentence.split()

tree = SignalHierarchy.from_parents(torch.tensor(parents))
tree

# %% [markdown]
# Words are the *leaves*: they alone have features. Row `i` of every tensor of features
# belongs to the node `tree.leaves[i]`.

# %%
print(tree.leaves.tolist())

# %% [markdown]
# ## From softmax to HSA
#
# Take some queries and keys. Words of one sentence are alike here, as they would be in
# a trained model. Softmax attention is HSA on a flat tree, with all words below one
# root, so one function gives both matrices:

# %%
from hsa_pyg.analysis import attention_matrix

torch.manual_seed(5)
_, sentence_of = tree.parent[tree.leaves].unique(return_inverse=True)
shared = torch.randn(2, 4, 8)[:, sentence_of]
q, k = 0.9 * shared + 0.6 * torch.randn(2, len(words), 8)
q, k = q[:, None], k[:, None]  # [words, heads, channels of a head]

flat = SignalHierarchy.from_parents(torch.tensor([-1] + [0] * len(words)))
softmax = attention_matrix(q, k, flat)[0]
hsa = attention_matrix(q, k, tree)[0]

scores = (q[:, 0] @ k[:, 0].T) / 8**0.5
print("flat tree is softmax:", torch.allclose(softmax, scores.softmax(1), atol=1e-6))

# %% [markdown]
# Side by side, on one scale of colours. Row: the word that looks. Column: the word that
# is looked at. The frames are the blocks of the tree.


# %%
def draw(axes, matrix, title):
    image = axes.imshow(matrix, cmap="Greys", vmin=0, vmax=softmax.max())
    axes.set_title(title)
    axes.set_xticks(range(len(words)), words, rotation=90)
    axes.set_yticks(range(len(words)), words)
    return image


def frame(axes, rows, columns, **style):
    corner = (columns[0] - 0.5, rows[0] - 0.5)
    axes.add_patch(Rectangle(corner, len(columns), len(rows), fill=False, **style))


figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.6), layout="constrained")
draw(left, softmax, "softmax")
image = draw(right, hsa, "HSA on the tree")
figure.colorbar(image, ax=right, label="weight")
sentences = [(sentence_of == s).nonzero().view(-1).tolist() for s in range(4)]
paragraphs = [sentences[0] + sentences[1], sentences[2] + sentences[3]]
for first, second in ((0, 1), (2, 3)):  # two sentences of one paragraph
    frame(right, sentences[first], sentences[second], edgecolor="tab:blue", lw=1.5)
    frame(right, sentences[second], sentences[first], edgecolor="tab:blue", lw=1.5)
for one, other in (paragraphs, paragraphs[::-1]):
    frame(right, one, other, edgecolor="tab:orange", lw=2)
plt.show()

# %% [markdown]
# - **Within a sentence** (the squares on the diagonal) words see each other one by one.
# - **Between two sentences of a paragraph** (blue) all pairs of words share one weight.
# - **Between paragraphs** (orange) one weight holds for still more pairs.
#
# That has a price. In softmax attention the words of *the music stays* look at *it*, in
# the other paragraph. HSA has one weight for all words of that paragraph, and lets them
# look at their own sentence instead.
#
# Rows still sum to one. What is saved is the number of weights to find:

# %%
print("rows sum to one:", torch.allclose(hsa.sum(1), torch.ones(len(words))))
print("weights of softmax:", softmax.numel())
between = hsa[paragraphs[0]][:, paragraphs[1]]
print("weights between the paragraphs:", len(between.unique()), "for", between.numel())

# %% [markdown]
# ## Which numbers the blocks hold
#
# Of all matrices with these blocks, HSA finds the one closest to softmax, in
# Kullback-Leibler divergence. Others with the same blocks, which slightly different
# queries and keys give, are farther away, all of them:


# %%
def divergence(theta):
    """KL from softmax, the mean over rows."""
    return (theta * (theta / softmax).log()).sum(1).mean().item()


others = []
for _ in range(200):
    noise = 0.1 * torch.randn(2, *q.shape)
    others.append(divergence(attention_matrix(q + noise[0], k + noise[1], tree)[0]))

print(f"HSA                     {divergence(hsa):.4f}")
print(f"the best of 200 others  {min(others):.4f}")
print(f"the same weight for all {divergence(torch.full_like(hsa, 1 / len(words))):.4f}")

# %% [markdown]
# Four passes over the tree find it, and no matrix of all pairs is made. On the way
# every node gets an **energy**. That of the root is this very divergence, less the mean
# of softmax's log-normalisers, which depends on no matrix:

# %%
from hsa_pyg import hierarchical_attention

values = torch.randn(len(words), 1, 8)
y, energy = hierarchical_attention(q, k, values, tree, return_energy=True)
print("same as the matrix:", torch.allclose(y[:, 0], hsa @ values[:, 0], atol=1e-5))

normaliser = scores.logsumexp(1).mean()
print(f"energy of the root + normaliser: {(energy[0, 0] + normaliser).item():.4f}")

# %% [markdown]
# The energy of a sentence tells how much its words have to say to each other. The lower
# it is, and the less the other nodes offer, the more of their weight stays inside:

# %%
sentence_nodes = [node for node in range(len(parents)) if tree.depth[node] == 2]
texts = [sentence for paragraph in review for sentence in paragraph]
kept = [hsa[s][:, s].sum(1).mean() for s in sentences]
for text, node, weight in zip(texts, sentence_nodes, kept, strict=True):
    print(f"{text:18} energy {energy[node, 0]:6.2f}   weight inside {weight:.2f}")

# %% [markdown]
# ## The layer
#
# `HSAConv` puts projections and heads around it, in the manner of PyG. It takes rows of
# leaves and a tree:

# %%
from hsa_pyg import HSAConv

conv = HSAConv(16, 32, heads=4)
out = conv(torch.randn(tree.num_leaves, 16), tree)
print(conv, list(out.shape))

# %% [markdown]
# ## Data: edges `child_of`
#
# Now a task that messages between neighbours cannot solve. A document is 8 sentences of
# 8 words, each word one of four symbols. One word somewhere is *marked*. Every word is
# to say which symbol the marked one is.
#
# A `NestedSignal` is PyG's `HeteroData` whose tree is stored as edges from child to
# parent, named `child_of`. It may hold other edges, too: here from a word to the next.

# %%
from hsa_pyg import NestedSignal


def make_document(sentences=8, length=8, symbols=4):
    num_words = sentences * length
    ids = torch.arange(num_words)
    symbol, marked = torch.randint(symbols, (num_words,)), torch.randint(num_words, ())

    signal = NestedSignal()
    signal["document"].num_nodes = 1
    signal["sentence"].num_nodes = sentences
    x = torch.zeros(num_words, symbols + 1)
    x[ids, symbol] = 1
    x[marked, -1] = 1
    signal["word"].x = x
    signal["word"].y = symbol[marked].expand(num_words).clone()
    signal["word"].distance = (ids - marked).abs()

    in_sentence = torch.stack([ids, ids // length])
    in_document = torch.stack([ids[:sentences], torch.zeros_like(ids[:sentences])])
    signal["word", "child_of", "sentence"].edge_index = in_sentence
    signal["sentence", "child_of", "document"].edge_index = in_document
    neighbours = torch.stack([ids[:-1], ids[1:]])
    both_ways = torch.cat([neighbours, neighbours.flip(0)], dim=1)
    signal["word", "next", "word"].edge_index = both_ways
    return signal


torch.manual_seed(0)
documents = [make_document() for _ in range(600)]
documents[0].validate()
print(documents[0])

# %% [markdown]
# A loader batches them, and compiles the trees of a batch into one forest that all
# layers share. No document sees another, and there is neither padding nor a mask:

# %%
from hsa_pyg.loader import DataLoader

train = DataLoader(documents[:500], batch_size=25, shuffle=True)
test = DataLoader(documents[500:], batch_size=100)
batch = next(iter(train))
print(batch.hierarchy)

# %% [markdown]
# ## A model of your own
#
# A block as in graph transformers: attention among neighbours by `GATConv`, attention
# among all by `HSAConv`, and an MLP. The line with `self.far` is all that HSA asks for.

# %%
from torch import nn
from torch_geometric.nn import GATConv


class Block(nn.Module):
    def __init__(self, channels, heads=4, hierarchical=True):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.near = GATConv(channels, channels // heads, heads)
        self.far = HSAConv(channels, channels, heads) if hierarchical else None
        self.mlp = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, 2 * channels),
            nn.ReLU(),
            nn.Linear(2 * channels, channels),
        )

    def forward(self, x, edge_index, hierarchy):
        normed = self.norm(x)
        x = x + self.near(normed, edge_index)
        if self.far is not None:
            x = x + self.far(normed, hierarchy)
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, symbols=4, channels=32, hierarchical=True):
        super().__init__()
        self.read = nn.Linear(symbols + 1, channels)
        self.blocks = nn.ModuleList(
            Block(channels, hierarchical=hierarchical) for _ in range(2)
        )
        self.say = nn.Linear(channels, symbols)

    def forward(self, batch):
        x = self.read(batch["word"].x)
        edge_index = batch["word", "next", "word"].edge_index
        for block in self.blocks:
            x = block(x, edge_index, batch.hierarchy)
        return self.say(x)


# %% [markdown]
# One gradient step, to see that everything is connected:

# %%
model = Model()
loss = nn.functional.cross_entropy(model(batch), batch["word"].y)
loss.backward()
print("no gradient:", [n for n, p in model.named_parameters() if p.grad is None])

# %% [markdown]
# And training, twelve times through the 500 documents, with and without `HSAConv`:


# %%
def trained(hierarchical):
    torch.manual_seed(1)
    model = Model(hierarchical=hierarchical)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(12):
        for batch in train:
            loss = nn.functional.cross_entropy(model(batch), batch["word"].y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


models = {"GATConv alone": trained(False), "GATConv and HSAConv": trained(True)}

# %%
batch = next(iter(test))
distances = range(13)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for (name, model), marker in zip(models.items(), "os", strict=True):
    with torch.no_grad():
        right = (model(batch).argmax(1) == batch["word"].y).float()
    print(f"{name:20} accuracy {right.mean():.2f}")
    near = [right[batch["word"].distance == d].mean() for d in distances]
    axes.plot(distances, near, marker=marker, label=name)
axes.axhline(0.25, color="grey", ls=":", label="guessing")
axes.set(xlabel="words between", ylabel="accuracy", ylim=(0, 1.05))
axes.set_xlabel("distance from the marked word")
axes.legend(loc="center right")
plt.show()

# %% [markdown]
# Two layers of `GATConv` carry the symbol two words far, and no farther. With `HSAConv`
# it arrives everywhere. The task was made to show this; softmax attention over whole
# documents would do as well, and at 64 words as fast. What HSA brings for long inputs
# is [measured](../docs/performance.md), and where it brings nothing is [said
# too](../docs/when_not.md).
#
# ## When it goes wrong
#
# The mistake most often made: features for all nodes instead of the leaves.

# %%
try:
    conv(torch.randn(len(parents), 16), tree)
except ValueError as error:
    print(error)

# %% [markdown]
# And one in the data, edges from parent to child. `validate()` finds it:

# %%
swapped = make_document()
swapped["word", "child_of", "sentence"].edge_index = torch.stack(
    [torch.arange(64) // 8, torch.arange(64)]
)
try:
    swapped.validate()
except ValueError as error:
    print(error)

# %% [markdown]
# ## Where to go next
#
# - [Documents](02_documents.ipynb): the tree from a file, instead of by hand.
# - [Concepts](../docs/concepts.md): the four passes, energies, positions.
# - [Migrating](../docs/migration.md) from `GPSConv`, `TransformerConv` or
#   `nn.MultiheadAttention`, with the same numbers on a flat tree.
# - [Options of the attention](../docs/attention_options.md): top-k, windows, causal.
# - [Troubleshooting](../docs/troubleshooting.md): what messages mean.
