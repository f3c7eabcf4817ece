# %% [markdown]
# # Bring your own data, positions and leaf types
#
# At the end you will have taken data that no converter of the library knows, machine
# readings with a log, from JSON to a trained model: with a converter, a leaf type, an
# encoder and a positional embedding of your own, each a few lines. You will also see
# how `validate()` tells what is wrong with a tree.
#
# **You need** `pip install -e ".[all,notebooks]"` in a clone (of `all` only the extras
# `text` and `trees`). The data are made up here. Nothing is fetched from a network.

# %%
import ast
import math

import matplotlib.pyplot as plt
import networkx
import torch

from hsa_pyg import HSAConv, NestedSignal, SignalHierarchy
from hsa_pyg.converters import DocumentConverter, HashedWords, concat, from_networkx
from hsa_pyg.data import union_schema
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import (
    HierarchicalPosition,
    HSATransformer,
    KeyValuePosition,
    LeafEncoder,
    SequencePosition,
)

# %% [markdown]
# ## Three ways in
#
# Take the first that fits.
#
# **Parents.** If you have a vector per leaf and only want the layer, a list of parents
# is all it takes: -1 marks the root, and every childless node is a leaf.

# %%
hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 2]))
print(hierarchy)
print(HSAConv(8, 16, heads=2)(torch.randn(hierarchy.num_leaves, 8), hierarchy).shape)

# %% [markdown]
# **A networkx tree.** Anything that you can walk becomes one in a few lines. Here the
# syntax tree of a Python function: its leaves are the childless nodes of the tree, and
# their feature is the number of their kind.

# %%
program = ast.parse("def volume(r, h):\n    return 3.14 * r * r * h\n")

tree = networkx.DiGraph()
waiting = [(program, None)]
while waiting:
    node, parent = waiting.pop()
    # A number for each place: ast has one object for all reads of a variable.
    number = tree.number_of_nodes()
    tree.add_node(number, kind=type(node).__name__)
    if parent is not None:
        tree.add_edge(parent, number)
    children = list(ast.iter_child_nodes(node))
    waiting += [(child, number) for child in reversed(children)]
kinds = sorted({kind for _, kind in tree.nodes(data="kind")})

code = from_networkx(tree, features=lambda node, at: kinds.index(at["kind"]))
print(code)
print(code.hierarchy)

# %% [markdown]
# **A `NestedSignal` by hand.** This is what all converters make in the end, and what
# the rest of this notebook does.
#
# ## A converter
#
# A machine reports its sensors in windows of 16 samples: how it shakes eight times a
# day, its temperature once. Some machines have a log. Reports like these, which a file
# of JSON could hold, are made up here:

# %%
DAYS, WINDOWS, WIDTH = 4, 8, 16
generator = torch.Generator().manual_seed(0)
REMARKS = ["Started.", "Oil changed. All quiet.", "Checked by the night shift."]


def made_up(on_schedule):
    """What a machine reports. On schedule, it shakes alike at one hour of each day."""
    day = 1.5 * torch.rand(WINDOWS, generator=generator)
    days = [
        day if on_schedule else day[torch.randperm(WINDOWS, generator=generator)]
        for _ in range(DAYS)
    ]
    loudness = torch.cat(days)[:, None]
    phase = torch.rand(DAYS * WINDOWS, 1, generator=generator)
    at = torch.arange(WIDTH) / WIDTH
    noise = torch.randn(DAYS * WINDOWS, WIDTH, generator=generator)
    shaking = loudness * torch.sin(2 * math.pi * (3 * at + phase)) + 0.1 * noise
    number = int(torch.randint(2 * len(REMARKS), (1,), generator=generator))
    return {
        "vibration": shaking.tolist(),
        "temperature": noise[:DAYS].tolist(),
        "log": REMARKS[number] if number < len(REMARKS) else None,
        "on_schedule": on_schedule,
    }


figure, panels = plt.subplots(2, 1, figsize=(8, 3.4), sharex=True, layout="constrained")
for axes, on_schedule in zip(panels, (True, False), strict=True):
    signal = torch.tensor(made_up(on_schedule)["vibration"]).flatten()
    axes.plot(torch.arange(len(signal)) * 24 / (WINDOWS * WIDTH), signal, lw=0.6)
    axes.set_title("on schedule" if on_schedule else "not on schedule", fontsize=10)
    axes.set_xticks(range(0, 24 * DAYS + 1, 24))
    axes.grid(axis="x")
panels[1].set_xlabel("hours")
plt.show()

# %% [markdown]
# The task is to tell both apart. Loudness by itself says nothing: a machine that is not
# on schedule has the same loud and quiet hours each day, in another order.
#
# The converter says what is there: the number of nodes of an internal type, the
# features `x` of a leaf type, and who is `child_of` whom, children in the first row. In
# `pos` goes the place in the parent, here the hour since the start. `concat` makes the
# record of sensors and log, and keeps the number of a part's name in `key`.

# %%
words = HashedWords(vocab_size=1024)
convert = DocumentConverter(words)
KEYS = ["vibration", "temperature", "log"]


def sensor(samples):
    """sensor > window, a new leaf type: x [n, 16]."""
    signal = NestedSignal()
    number = len(samples)
    signal["sensor"].num_nodes = 1
    signal["window"].x = torch.tensor(samples)
    signal["window"].pos = (torch.arange(number) * 24.0 * DAYS / number)[:, None]
    signal["window", "child_of", "sensor"].edge_index = torch.stack(
        [torch.arange(number), torch.zeros(number, dtype=torch.long)]
    )
    return signal


def machine(report):
    """machine > sensors and log: a signal of two leaf types, windows and words."""
    log = convert.text(report["log"]) if report["log"] else None
    sensors = {name: sensor(report[name]) for name in ("vibration", "temperature")}
    return concat(
        {**sensors, "log": log},
        "key_value",
        parent="machine",
        keys=KEYS,
        y=int(report["on_schedule"]),
    )


signals = [machine(made_up(bool(number % 2))) for number in range(360)]
train_set, test_set = signals[:300], signals[300:]
print(next(signal for signal in signals if "token" in signal.node_types))

# %% [markdown]
# ## Is it a tree? Ask validate()
#
# Call `validate()` on a sample before you train. Each of these mistakes is one that is
# easily made; each message names the node and says what to do.


# %%
def swapped(signal):
    edge = signal["window", "child_of", "sensor"].edge_index
    signal["window", "child_of", "sensor"].edge_index = edge.flip(0)


def uncounted(signal):
    del signal["sensor"].num_nodes


def one_left_out(signal):
    edge = signal["window", "child_of", "sensor"].edge_index
    signal["window", "child_of", "sensor"].edge_index = edge[:, 1:]


def whole_numbers(signal):
    signal["window"].pos = torch.arange(DAYS * WINDOWS)


def sensor_failed(signal):
    signal["window"].x[5] = float("nan")


for mistake in (swapped, uncounted, one_left_out, whole_numbers, sensor_failed):
    signal = sensor(made_up(True)["vibration"])
    mistake(signal)
    try:
        signal.validate()
    except ValueError as error:
        print(f"{mistake.__name__}:\n    {error}\n")
print("a right one:", signals[0].validate())

# %% [markdown]
# ## An encoder for the new leaf type
#
# A leaf type needs a module from its `x` to vectors. A linear map would be made by
# `from_schema` without further ado. For waves that may start anywhere in a window, take
# a convolution instead.


# %%
class WindowEncoder(torch.nn.Sequential):
    """[n, 16] samples to [n, channels]."""

    def __init__(self, channels):
        super().__init__(
            torch.nn.Unflatten(1, (1, -1)),
            torch.nn.Conv1d(1, 16, kernel_size=5, padding=2),
            torch.nn.GELU(),
            torch.nn.AdaptiveAvgPool1d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(16, channels),
        )


# %% [markdown]
# ## A positional embedding
#
# A window should look at the windows of the same hour on other days. Positions enter a
# score by the inner product of two siblings' embeddings. So embed the time on a clock:
# the product is then largest at the same hour, whatever the day. A module of
# `HierarchicalPosition` needs the attribute `channels`, and maps `pos` [n, 1] of all
# children to [n, channels]; its parameters are learned with the model's.


# %%
class ClockPosition(torch.nn.Module):
    def __init__(self, channels, period=24.0, scale=3.0):
        super().__init__()
        self.channels, self.scale = channels, scale
        waves = torch.arange(1, channels // 2 + 1)
        self.register_buffer("waves", 2 * math.pi / period * waves)

    def forward(self, pos):
        angle = pos * self.waves
        norm = (2 / self.channels) ** 0.5
        return self.scale * norm * torch.cat([angle.cos(), angle.sin()], dim=1)


hours = torch.arange(0.0, 24 * DAYS, 0.5)[:, None]
figure, axes = plt.subplots(figsize=(8, 2.2), layout="constrained")
for module, style in (
    (ClockPosition(16, scale=1.0), "-"),
    (SequencePosition(16), "--"),
):
    with torch.no_grad():
        product = module(hours) @ module(hours)[0]
    axes.plot(hours[:, 0], product, style, label=type(module).__name__)
axes.set_xticks(range(0, 24 * DAYS + 1, 24))
axes.set_xlabel("hours between two windows")
axes.set_title("inner product of their positions", fontsize=10)
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %% [markdown]
# ## Put together
#
# `LeafEncoder` has a table for the words and your module for the windows.
# `HierarchicalPosition` has your positions for the children of a sensor, and those of
# the library elsewhere.

# %%
schema = union_schema(signals)


def make_model(window_encoder, window_position):
    encoder = LeafEncoder(
        32,
        vocab_sizes={"token": words.vocab_size},
        modules={"window": window_encoder},
    )
    domains = dict.fromkeys(schema.internal_types, "sequence")
    domains |= {"machine": KeyValuePosition(len(KEYS), 16), "sensor": window_position}
    return HSATransformer(
        encoder,
        out_channels=2,
        dropout=0.0,
        position=HierarchicalPosition(domains, 16),
    )


def train(model, epochs=10):
    """Accuracy on the test machines after each epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    test = next(iter(DataLoader(test_set, len(test_set), schema=schema)))
    scores = []
    for _ in range(epochs):
        for batch in DataLoader(train_set, 20, shuffle=True, schema=schema):
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = model(test).argmax(dim=1) == test.y
        scores.append(float(right.float().mean()))
    return scores


# %% [markdown]
# The first model has both parts of yours. The others each lack one. Half of the test
# machines are on schedule, so guessing gives 0.5.

# %%
choices = {
    "your encoder, your position": (WindowEncoder, ClockPosition),
    "your encoder, SequencePosition": (WindowEncoder, SequencePosition),
    "a linear encoder, your position": (
        lambda channels: torch.nn.Linear(WIDTH, channels),
        ClockPosition,
    ),
}
curves = {}
for name, (encoder, position) in choices.items():
    torch.manual_seed(0)
    curves[name] = train(make_model(encoder(32), position(16)))
    print(f"{name:32} {curves[name][-1]:.2f}")

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for (name, scores), style in zip(curves.items(), ("-o", "--s", ":^"), strict=True):
    axes.plot(range(1, len(scores) + 1), scores, style, label=name)
axes.axhline(0.5, color="0.7", lw=0.8)
axes.set_xlabel("epochs")
axes.set_ylabel("accuracy on the test machines")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %% [markdown]
# The position decides: without the clock the model keeps guessing, in as many epochs as
# these. The encoder matters less than one might think, as the blocks have MLPs of their
# own, which find in linear features what a linear map cannot. The task was made for the
# clock; on your data, compare as here, on more than one seed.
#
# ## What a model says when something is missing
#
# Types that have no encoder or no domain are named as well:

# %%
for remove in ("encoder", "domain"):
    model = make_model(WindowEncoder(32), ClockPosition(16))
    if remove == "encoder":
        model.encoder = LeafEncoder(32, vocab_sizes={"token": words.vocab_size})
    else:
        model.position = HierarchicalPosition({"sensor": ClockPosition(16)}, 16)
    try:
        model(signals[0])
    except ValueError as error:
        print(f"no {remove}:\n    {error}\n")

# %% [markdown]
# ## Where to go next
#
# - [Troubleshooting](../docs/troubleshooting.md): more mistakes, their messages and
#   remedies.
# - [From what you have to nested signals](../docs/converters.md): check first whether a
#   converter for your data is there.
# - [Options of the attention](../docs/attention_options.md) and
#   [when not to use HSA](../docs/when_not.md).
