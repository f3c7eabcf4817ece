# %% [markdown]
# # Items of text and pictures
#
# At the end you will have composed trees of text and image by hand, with parts missing
# where the data have none, and trained one model on words, on pictures and on both.
# You will also see how much attention words and patches pay each other.
#
# **You need** `pip install -e ".[all,notebooks]"` in a clone (of `all` only the extras
# `text` and `image`). The emoji come with the package. Nothing is fetched from a
# network.

# %%
import copy
import tempfile
import textwrap

import matplotlib.pyplot as plt
import torch

from hsa_pyg.analysis import NodeLabels, collect_block_weights
from hsa_pyg.converters import (
    DocumentConverter,
    HashedWords,
    concat,
    from_image,
    to_image,
)
from hsa_pyg.data import union_schema
from hsa_pyg.datasets import EmojiMultimodal
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import HierarchicalPosition, HSATransformer, KeyValuePosition

# %% [markdown]
# ## From raw parts to one tree
#
# `EmojiMultimodal` gives finished signals. Here you use only its raw data, 1,911 emoji
# with a name and a picture of 32 x 32 pixels each, and make the signals yourself, as
# you would from data of your own. Words that name a class ("flag") have been taken out
# of the names.

# %%
folder = tempfile.TemporaryDirectory()
emoji = EmojiMultimodal(folder.name, "val", log=False)
raw = emoji.documents()
print(len(raw), "emoji in", len(emoji.classes), "categories")
print(raw[900].texts["name"], "|", emoji.classes[raw[900].label], "|", raw[900].split)

# %% [markdown]
# One converter makes a tree of the name, another one of the picture: patches of 4 x 4
# pixels in quadrants of quadrants.

# %%
words = HashedWords(vocab_size=8192)
convert = DocumentConverter(words, images=False)


name = convert.text(raw[900].texts["name"])
image = from_image(raw[900].picture(), patch=4, channels=3)
print(name)
print(image)

# %% [markdown]
# `concat` hangs both under a new root. The root is a record: its domain is
# `"key_value"`, and each child carries the number of its name in `key`.

# %%
KEYS = ["name", "image"]
item = concat({"name": name, "image": image}, "key_value", keys=KEYS, y=raw[900].label)
item.validate()
print(item.hierarchy)
print("keys:", item["document"].key.tolist(), item["image"].key.tolist())

# %% [markdown]
# ## Parts that are missing
#
# `None` stands for a part that an item lacks. Such items have fewer types than others.
# `DataLoader` brings them to one schema, so that no node is lost, and fills in nothing:
# a missing picture is no black picture, it is no node at all.

# %%
some = [
    item,
    concat({"name": name, "image": None}, "key_value", keys=KEYS, y=1),
    concat({"name": None, "image": image}, "key_value", keys=KEYS, y=2),
]
batch = next(iter(DataLoader(some, batch_size=3)))
for number in range(3):
    one = batch[number]
    print(one["token"].num_nodes, "words,", one["patch"].num_nodes, "patches")

# %% [markdown]
# ## Words, pictures, or both
#
# Convert the parts once, 400 emoji to train on and the 180 of the validation split, and
# compose them in three ways.

# %%
torch.manual_seed(0)
training = [one for one in raw if one.split == "train"]
training = [training[i] for i in torch.randperm(len(training))[:400].tolist()]
validation = [one for one in raw if one.split == "val"]


def parts_of(one):
    string = one.texts["name"]
    return {
        "name": convert.text(string) if string else None,
        "image": from_image(one.picture(), patch=4, channels=3),
        "y": one.label,
    }


train_parts = [parts_of(one) for one in training]
val_parts = [parts_of(one) for one in validation]


def compose(all_parts, shown):
    """A signal of the shown parts for each emoji that has any of them."""
    signals = []
    for one in all_parts:
        parts = {key: one[key] if key in shown else None for key in KEYS}
        if any(part is not None for part in parts.values()):
            signals.append(concat(parts, "key_value", keys=KEYS, y=one["y"]))
    return signals


VIEWS = {"words": ["name"], "picture": ["image"], "both": KEYS}
train_set = {view: compose(train_parts, shown) for view, shown in VIEWS.items()}
val_set = {view: compose(val_parts, shown) for view, shown in VIEWS.items()}
schema = union_schema(train_set["both"] + val_set["both"])
print({view: len(signals) for view, signals in val_set.items()})

# %% [markdown]
# The model is the same for all three: `schema` names all types, and those that a batch
# lacks cost nothing.


# %%
def make_model():
    domains = dict.fromkeys(schema.internal_types, "sequence")
    domains |= {"image": "grid", "quadrant": "grid"}
    domains |= {"item": KeyValuePosition(len(KEYS), 16)}
    return HSATransformer.from_schema(
        schema,
        out_channels=len(emoji.classes),
        channels=32,
        vocab_sizes={"token": words.vocab_size},
        position=HierarchicalPosition(domains, 16),
    )


def train(signals, epochs=8):
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # Little data: put into batches once, and kept.
    batches = list(DataLoader(signals, 50, shuffle=True, schema=schema))
    for _ in range(epochs):
        for batch in batches:
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model, signals):
    batch = next(iter(DataLoader(signals, len(signals), schema=schema)))
    return float((model(batch).argmax(dim=1) == batch.y).float().mean())


models = {view: train(signals) for view, signals in train_set.items()}
counts = torch.tensor([one.label for one in validation]).bincount()
print(f"most frequent category: {int(counts.max()) / len(validation):.2f}")
for view, model in models.items():
    print(f"trained and tested on {view:8} {accuracy(model, val_set[view]):.2f}")
error = (0.25 / len(validation)) ** 0.5
print(f"standard error of a score: about {error:.2f}")

# %% [markdown]
# Mind the error: scores that are closer than twice of it are not told apart.
#
# The third model has never seen an item with a part missing. Asked about one, it still
# answers, but how well? Train a fourth one on all three sets at once, so that each
# emoji comes with a part missing and without, and ask both:

# %%
every_view = [signal for signals in train_set.values() for signal in signals]
models["any part"] = train(every_view, epochs=4)
print("tested on          " + "".join(f"{view:>10}" for view in VIEWS))
for name in ("both", "any part"):
    scores = [accuracy(models[name], val_set[view]) for view in VIEWS]
    print(f"trained on {name:8}" + "".join(f"{score:10.2f}" for score in scores))

# %% [markdown]
# If items will lack parts when the model is used, train with parts missing too: `None`
# is all it takes.
#
# ## What words and patches pay each other
#
# The name and the picture are siblings, so one number says what every word pays the
# picture as a whole, and one what every patch pays the name. The rest of their
# attention stays inside. `collect_block_weights` gives these numbers for each layer.


# %%
def between(model, signal):
    """What words pay the picture, and patches the name; last layer, mean of heads."""
    (source, target), weight, _ = collect_block_weights(model, signal)[-1]
    image = signal.hierarchy.node_slices["image"][0]
    to_picture, to_name = weight[source == image], weight[target == image]
    return float(to_picture.mean()), float(to_name.mean())


complete = [signal for signal in val_set["both"] if len(signal["token"].x)]
pairs = torch.tensor([between(models["both"], signal) for signal in complete[:60]])
print(f"a word pays the picture {pairs[:, 0].mean():.2f} of its attention")
print(f"a patch pays the name   {pairs[:, 1].mean():.2f}")

# %% [markdown]
# All patches together get what the words pay them in equal shares: that is the block
# constraint. Inside the picture quadrants and patches differ. Add up for each leaf what
# it gets from all leaves, on its way from the root, and draw it on the patches.


# %%
def received(model, signal):
    """Attention that each leaf gets, summed over all leaves of the item: [N]."""
    hierarchy = signal.hierarchy
    count = hierarchy.leaf_counts
    (source, target), weight, own = collect_block_weights(model, signal)[-1]
    share = weight.mean(dim=1) * count[target] / count[source]
    got = torch.zeros(hierarchy.num_nodes).index_add(0, source, share)
    for depth in range(1, hierarchy.max_depth + 1):
        nodes = (hierarchy.depth == depth).nonzero().view(-1)
        got[nodes] += got[hierarchy.parent[nodes]]
    return got[hierarchy.leaves] + own.mean(dim=1)


got = received(models["both"], item)
print("leaves:", len(got), " attention in all:", round(float(got.sum()), 3))

# %%
chosen = [i for i, one in enumerate(val_parts) if one["name"] is not None][::26][:6]
figure, panels = plt.subplots(2, 6, figsize=(10, 4), layout="constrained")
for (top, bottom), number in zip(panels.T, chosen, strict=True):
    parts = val_parts[number]
    signal = compose([parts], KEYS)[0]
    first, end = signal.hierarchy.leaf_slices["patch"]
    got = received(models["both"], signal)[first:end, None]
    heat = copy.copy(parts["image"])
    heat["patch"].x = (got / got.mean()).expand(heat["patch"].x.shape)

    top.imshow(to_image(parts["image"]).permute(1, 2, 0))
    title = textwrap.wrap(validation[number].texts["name"].lower(), 18)[:2]
    top.set_title("\n".join(title), fontsize=9)
    shown = bottom.imshow(to_image(heat)[0], cmap="gray", vmin=0.6, vmax=1.4)
    to_picture, _ = between(models["both"], signal)
    bottom.set_title(f"words pay it {to_picture:.2f}", fontsize=9)
    top.axis("off")
    bottom.axis("off")
figure.colorbar(shown, ax=panels[1], label="received / mean", extend="both")
plt.show()

# %% [markdown]
# Grey is relative to the picture: 1 is what its mean patch receives. Take such pictures
# as a way to look into a model, not as a reason for its answer.
#
# ## A record inside a record: the shape of a news article
#
# `N24News` reads a set of newspaper articles, which you have to fetch yourself. Its
# shape is easily made by hand: headline, body, and a figure, which is itself a record
# of a picture and its caption. Two made-up articles, one without a figure:

# %%
NEWS_KEYS = ["headline", "body", "figure", "image", "caption"]


def article(headline, body, pixels=None, caption=None, y=0):
    figure = None
    if pixels is not None:
        inside = {
            "image": from_image(pixels, patch=8),
            "caption": convert.text(caption),
        }
        figure = concat(inside, "key_value", parent="figure", keys=NEWS_KEYS)
    parts = {
        "headline": convert.text(headline),
        "body": convert.text(body),
        "figure": figure,
    }
    return concat(parts, "key_value", keys=NEWS_KEYS, y=y)


sky = torch.linspace(0.2, 1, 24)[:, None, None].expand(24, 32, 3).contiguous()
news = [
    article(
        "Rain at last",
        "It rained all night. The river rose.\n\nFarmers are glad.",
        sky,
        "The sky over Ulm.",
    ),
    article("No trains on Monday", "The drivers have other plans.", y=1),
]

labels = NodeLabels(news[0])
hierarchy = news[0].hierarchy
below = {node: [] for node in range(-1, hierarchy.num_nodes)}
for node, parent in enumerate(hierarchy.parent.tolist()):
    below[parent].append(node)


def outline(node, depth=0):
    kind, number = labels.place(node)
    if kind not in ("token", "patch", "quadrant"):
        key = news[0][kind].get("key")
        place = "" if key is None else f"{NEWS_KEYS[key[number]]}: "
        print("    " * depth + place + kind, labels(node, 40))
        for child in sorted(below[node]):
            outline(child, depth + 1)


outline(below[-1][0])

# %% [markdown]
# Both kinds of record get positions by their keys. One step of training shows that the
# article without a figure is no special case:

# %%
schema = union_schema(news)
domains = dict.fromkeys(schema.internal_types, "sequence")
domains |= {"image": "grid", "quadrant": "grid"}
domains |= {kind: KeyValuePosition(len(NEWS_KEYS), 16) for kind in ("item", "figure")}
model = HSATransformer.from_schema(
    schema,
    out_channels=2,
    vocab_sizes={"token": words.vocab_size},
    position=HierarchicalPosition(domains, 16),
)
batch = next(iter(DataLoader(news, batch_size=2)))
loss = torch.nn.functional.cross_entropy(model(batch), batch.y)
loss.backward()
print(batch.hierarchy, "loss:", round(float(loss.detach()), 2))

# %% [markdown]
# These are a few epochs on a quarter of the training emoji: enough to see each part
# carry something, too little to say how much hierarchy helps. The experiment `emoji`
# compares models on all of them: `hsa-pyg experiment emoji --dry-run`.

# %% [markdown]
# ## Where to go next
#
# - [Global attention for graphs](05_global_attention_for_graphs.ipynb): the tree is
#   found in a graph.
# - [Bring your own](08_bring_your_own.ipynb): converters, positions and leaf types that
#   the library lacks.
# - [From what you have to nested signals](../docs/converters.md): all converters, and
#   `concat` in full.
