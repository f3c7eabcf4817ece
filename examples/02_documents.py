# %% [markdown]
# # Documents: from a file to a prediction
#
# At the end you will have read a document from a file as a tree, trained a classifier
# of film reviews on such trees beside its twin with softmax attention, and seen which
# words of a review the attention went to.
#
# **You need** `pip install -e ".[all,notebooks]"` in a clone. The 2,000 reviews are
# shipped with it; nothing is fetched from the network.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

plt.rcParams["figure.dpi"] = 80
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## A file becomes a tree
#
# `from_document` reads plain text, Markdown, HTML and EPUB. Here is a small Markdown
# file:

# %%
from hsa_pyg.converters import ROLES, from_document

(folder / "review.md").write_text(
    """# A slow film

It takes *an hour* to start. Then it soars.

- The music stays.
- The plot does not.
"""
)
signal = from_document(folder / "review.md")
print(signal.hierarchy)
for kind in signal.node_types:
    print(f"{kind:10}", signal[kind].num_nodes)

# %% [markdown]
# The result is PyG's `HeteroData` with edges `(child, "child_of", parent)`. Only the
# tokens hold features; all other nodes say what belongs together. A heading opens a
# section, the list is a block, its items are blocks within:

# %%
from hsa_pyg.analysis import NodeLabels


def draw_tree(signal):
    """A signal's tree from left to right, the words at the right."""
    tree = signal.hierarchy
    label = NodeLabels(signal, roles={"block": ROLES, "paragraph": ROLES})
    parent, depth = tree.parent.tolist(), tree.depth.tolist()
    start = signal["token"].span[:, 0].argsort()
    first = tree.node_slices["token"][0]
    height = {first + int(leaf): row for row, leaf in enumerate(start)}
    for node in sorted(range(tree.num_nodes), key=lambda node: -depth[node]):
        below = [height[child] for child in height if parent[child] == node]
        height.setdefault(node, sum(below) / max(len(below), 1))
    axes = plt.figure(figsize=(8, 0.19 * tree.num_leaves)).gca()
    for node, above in enumerate(parent):
        x, y = depth[node], height[node]
        if above >= 0:
            xs, ys = [depth[above], depth[above], x], [height[above], y, y]
            axes.plot(xs, ys, color="0.6", linewidth=1, zorder=1)
        is_word = node in tree.leaves
        text = label(node) if is_word else label.type_name(node)
        box = None if is_word else {"facecolor": "white", "edgecolor": "0.6", "pad": 2}
        gap = 0.05 if is_word else 0
        axes.text(x + gap, y, text, va="center", fontsize=8, bbox=box)
    axes.set_xlim(-0.2, max(depth) + 0.8)
    axes.invert_yaxis()
    axes.axis("off")
    plt.show()


draw_tree(signal)

# %% [markdown]
# Hierarchical attention compares the children of each node with one another. What that
# saves can be counted before any model runs. On this page of two dozen words it is
# little; the next section counts it on real reviews.
#
# ## The film reviews
#
# `MovieReviews` holds the polarity data of Pang and Lee as trees document > paragraph >
# sentence > token, with a vocabulary counted on the training split. To stay within a
# minute, this page keeps the first 400 tokens of each review and trains on 600 of the
# 1,600.

# %%
from hsa_pyg.datasets import MovieReviews

options = {"max_tokens": 400, "log": False}
train = MovieReviews(folder, "train", **options)
test = MovieReviews(folder, "test", **options)

torch.manual_seed(0)
train = train[torch.randperm(len(train))[:600]]
print(len(train), "reviews to train on,", len(test), "to test on")
print(test[0])

# %%
from hsa_pyg.analysis import tree_shape

shapes = [tree_shape(signal) for signal in test]
flat = sum(shape.flat_pairs for shape in shapes)
tree = sum(shape.pairs for shape in shapes)
print(f"pairs of tokens: {flat:,}; pairs within families: {tree:,}")
print(f"softmax attention looks at {flat / tree:.0f} times as many")

# %% [markdown]
# ## Two models
#
# `HSATransformer.from_schema` makes an encoder for every leaf type that the schema
# names (here tokens), blocks of attention, a mean over the leaves and a linear head.
# `attention="flat"` gives the twin: the same parameters, softmax attention over all
# tokens of a review.
#
# A review's paragraphs, sentences and words are sequences; `HierarchicalPosition` tells
# every node its place among its siblings.

# %%
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import HierarchicalPosition, HSATransformer

schema = test[0].schema  # the reviews' node types and features


def make_model(attention):
    torch.manual_seed(1)
    return HSATransformer.from_schema(
        schema,
        out_channels=2,
        channels=32,
        num_layers=1,
        heads=2,
        vocab_sizes={"token": test.vocab_size},
        position=HierarchicalPosition(
            dict.fromkeys(schema.internal_types, "sequence"), 16
        ),
        dropout=0.2,
        attention=attention,
    )


models = {name: make_model(name) for name in ("hsa", "flat")}
for name, model in models.items():
    print(name, sum(p.numel() for p in model.parameters()), "parameters")

# %% [markdown]
# Training is plain PyTorch. The loader compiles the trees of a batch once, for all
# layers; there is no padding and no mask.

# %%
import torch.nn.functional as F


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        right = [model(b).argmax(1) == b.y for b in DataLoader(data, batch_size=50)]
    return torch.cat(right).float().mean().item()


def fit(model, epochs=3):
    optimizer = torch.optim.AdamW(model.parameters())
    steps = epochs * -(-len(train) // 16)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    torch.manual_seed(2)  # the same order of reviews for both models
    losses = []
    for _ in range(epochs):
        model.train()
        for batch in DataLoader(train, batch_size=16, shuffle=True):
            loss = F.cross_entropy(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return losses


losses = {name: fit(model) for name, model in models.items()}

# %%
for name, style in (("hsa", "-"), ("flat", "--")):
    smooth = torch.tensor(losses[name]).unfold(0, 10, 1).mean(1)
    plt.plot(smooth, style, label=name)
plt.xlabel("step")
plt.ylabel("training loss")
plt.title("mean of ten steps", fontsize=9)
plt.gcf().set_size_inches(5, 2.5)
plt.legend()
plt.show()

for name, model in models.items():
    print(f"{name:5} accuracy on {len(test)} test reviews: {accuracy(model, test):.2f}")

# %% [markdown]
# Guessing gives 0.50, and an accuracy measured on 200 reviews has a standard error of
# about 0.03: a difference of less than 0.1 between two such runs says nothing. The
# training loss falls much further than the accuracy rises: 600 reviews are few enough
# to be learned by heart. So this run shows that both models learn, not which one is
# better. On all training reviews, not cut, the two are level at about 0.84 over a few
# seeds, and an epoch of flat attention takes about three times as long:
# [the measured page](../docs/demo.md).
#
# ## Your own file
#
# A new file needs the tokenizer that the data set counted. All else is as before:

# %%
(folder / "mine.txt").write_text(
    """The first half hour is a boring mess. The jokes are bad and the script is stupid.

Then the story finds its heart. Her performance is wonderful, the ending is perfect,
and I left the theater happy. One of the best films of the year.
"""
)
mine = from_document(folder / "mine.txt", tokenizer=test.tokenizer)

model = models["hsa"].eval()
with torch.no_grad():
    chance = model(mine).softmax(1)[0]
for name, value in zip(test.classes, chance.tolist(), strict=True):
    print(f"{name}: {value:.2f}")

# %% [markdown]
# ## Where the attention went
#
# `collect_block_weights` runs a model and keeps its weights, one for every pair of
# siblings: what each leaf below *B* puts on all leaves below *C* together. So a word
# receives its share of the weights that its own node and all nodes above it receive:

# %%
from hsa_pyg.analysis import collect_block_weights


def received(model, signal):
    """The attention that each token receives, its mean over all tokens."""
    tree = signal.hierarchy
    weights = collect_block_weights(model, signal)[-1]
    attended, attending = weights.pair_index
    pair, own = weights.pair_weight.mean(1), weights.self_weight.mean(1)  # over heads
    share = pair * tree.leaf_counts[attending] / tree.leaf_counts[attended]
    node_gets = torch.zeros(tree.num_nodes).index_add(0, attended, share)
    total, node = own, tree.leaves
    while (node >= 0).any():
        total = total + torch.where(node >= 0, node_gets[node], 0.0)
        node = torch.where(node >= 0, tree.parent[node], -1)
    return total / tree.num_leaves


weight = received(model, mine)
print(f"sum {weight.sum():.3f}, between {weight.min():.4f} and {weight.max():.4f}")

# %% [markdown]
# The lightest word receives least, the darkest most; the range printed above says how
# far apart they are. Every sentence begins on a new line.


# %%
def show_words(signal, values, title):
    """The document's words, shaded by a value each."""
    (text,) = signal["document"].text
    sentence = signal["token", "child_of", "sentence"].edge_index[1].tolist()
    figure = plt.figure(figsize=(8, 2.6))
    axes = figure.gca()
    axes.set_title(title, fontsize=9, loc="left")
    pen, line, before = 0.0, 0, 0
    shades = (values - values.min()) / (values.max() - values.min())
    for (start, stop), which, shade in zip(
        signal["token"].span.tolist(), sentence, shades.tolist(), strict=True
    ):
        if which != before:
            pen, line, before = 0.0, line + 1, which
        drawn = axes.text(
            pen,
            -line,
            text[start:stop],
            family="monospace",
            fontsize=10,
            color="white" if shade > 0.6 else "black",
            bbox={"facecolor": plt.cm.Blues(shade), "edgecolor": "none", "pad": 1.5},
        )
        pen += len(drawn.get_text()) + 1
    axes.set_xlim(0, 75)
    axes.set_ylim(-line - 0.5, 0.8)
    axes.axis("off")
    plt.show()


show_words(mine, weight, "attention received (dark: more)")

# %% [markdown]
# Attention says where a model looked, not why it decided. What a single word did to the
# decision is better asked directly: leave it out, and see how far the score for "pos"
# moves.

# %%
with torch.no_grad():

    def score(signal):
        logits = model(signal)[0]
        return (logits[1] - logits[0]).item()

    unknown = test.tokenizer.token_to_id("[UNK]")
    effect = []
    for row in range(mine["token"].num_nodes):
        without = mine.clone()
        without["token"].x[row] = unknown
        effect.append(score(mine) - score(without))

effect = torch.tensor(effect)
(text,) = mine["document"].text
span = mine["token"].span.tolist()
words = [text[start:stop] for start, stop in span]
order = effect.argsort().tolist()
print("for neg:", ", ".join(words[row] for row in order[:6]))
print("for pos:", ", ".join(words[row] for row in order[:-7:-1]))
show_words(mine, effect, "effect on the score (dark: for pos, light: for neg)")

# %% [markdown]
# For reading longer documents there is a page of its own, with a tree to fold and every
# block's weight at a click:

# %%
from hsa_pyg.analysis import write_viewer

page = folder / "mine.html"
write_viewer(page, mine, model=model, classes=test.classes, title="mine.txt")
print(page.name, f"{page.stat().st_size / 1000:.0f} kB")

# %% [markdown]
# ## Where to go next
#
# - [03 A graph of pages with text and pictures](03_multimodal_graph.ipynb): documents
#   that link to one another.
# - [The converters](../docs/converters.md): HTML, EPUB, folders, your own tokenizer.
# - [The same comparison, measured](../docs/demo.md), and
#   [when not to use HSA](../docs/when_not.md).
# - `hsa-pyg train movie-reviews` trains on all reviews and keeps the best epoch;
#   `hsa-pyg inspect FILE --checkpoint FOLDER --html PAGE` shows a file as above.
