# %% [markdown]
# # A graph of pages with text and pictures
#
# At the end you will have a model of a whole website: hierarchical attention (HSA)
# reads the words and pictures inside each page, and a graph layer of PyG passes what
# it found along the links. You will see which pages it places in the right section of
# the site, with the links and without them.
#
# **You need** `pip install -e ".[all,notebooks]"` in a clone (of `all` only the extras
# `html`, `image` and `graph`). The website comes with the package: 81 pages of the
# documentation of SQLite. Nothing is fetched from a network.

# %%
import tempfile

import matplotlib.pyplot as plt
import networkx
import torch
from matplotlib.lines import Line2D
from torch_geometric.nn import SAGEConv

from hsa_pyg.analysis import tree_shape
from hsa_pyg.converters import PictureReader
from hsa_pyg.datasets import SqliteSite
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import HierarchicalPosition, HSATransformer

# %% [markdown]
# ## The site
#
# `SqliteSite` turns every HTML page into a `NestedSignal`. For a site of your own,
# `WebsitePages(root, folder)` does the same. To be quick, keep the first 100 words of
# a page and cut pictures into patches of 32 x 32 grey pixels. (`main_content=True`
# would leave out the menu and the logo, which are the same on all pages.)

# %%
folder = tempfile.TemporaryDirectory()
SIDE = 32
site = SqliteSite(
    folder.name,
    max_tokens=100,
    images=PictureReader(patch=SIDE, channels=1),
    log=False,
)
y = torch.cat([page.y for page in site])
print(len(site), "pages,", site.links.size(1), "links")
print(dict(zip(site.classes, y.bincount().tolist(), strict=True)))

# %% [markdown]
# The class of a page is its section: the folder that it lies in. Here is a page of the
# section `syntax`. Its leaves are of two types, `token` and `patch`. All other types
# only say what belongs together. The edges that make the tree have the relation
# `child_of`.

# %%
page = site[site.paths.index("syntax/vacuum-stmt.html")]
print(page["page"].title[0])
page

# %% [markdown]
# ## The tree of one page
#
# Below you see the tree of this page from its root down, and its two pictures, put
# together again from their patches: the logo, and a diagram of what the page is about.


# %%
def places(hierarchy):
    """Where to draw each node: leaves side by side, others above their middle."""
    children = [[] for _ in range(hierarchy.num_nodes)]
    for node, parent in enumerate(hierarchy.parent.tolist()):
        if parent >= 0:
            children[parent].append(node)
    x, drawn = {}, 0

    def place(node):
        nonlocal drawn
        for child in children[node]:
            place(child)
        if children[node]:
            x[node] = sum(x[child] for child in children[node]) / len(children[node])
        else:
            x[node], drawn = drawn, drawn + 1

    place(int(hierarchy.roots[0]))
    return x


def picture(page, number):
    """A picture of a page, from its patches."""
    patch, image = page["patch", "child_of", "image"].edge_index
    mine = patch[image == number]
    rows, columns = page["patch"].pos[mine].long().T
    out = torch.ones((int(rows.max()) + 1) * SIDE, (int(columns.max()) + 1) * SIDE)
    corners = zip(rows * SIDE, columns * SIDE, strict=True)
    for (row, column), x in zip(corners, page["patch"].x[mine], strict=True):
        out[row : row + SIDE, column : column + SIDE] = x.view(SIDE, SIDE)
    height, width = page["image"].scaled[number].tolist()
    return out[:height, :width]  # without what completed the last patches


# %%
hierarchy = page.hierarchy
x, depth = places(hierarchy), hierarchy.depth.tolist()
figure = plt.figure(figsize=(9, 5), layout="constrained")
above = figure.add_subplot(4, 1, (1, 3))
for node, parent in enumerate(hierarchy.parent.tolist()):
    if parent >= 0:
        above.plot([x[node], x[parent]], [-depth[node], -depth[parent]], "0.7", lw=0.7)
marks = dict(zip(hierarchy.node_slices, "s^vD>o*P", strict=False))
for kind, (first, end) in hierarchy.node_slices.items():
    nodes = range(first, end)
    if len(nodes):
        at = [x[node] for node in nodes], [-depth[node] for node in nodes]
        shade = {"token": "C0", "patch": "C1"}.get(kind, "0.3")
        above.plot(*at, marks[kind], color=shade, ms=5, label=kind)
above.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
above.axis("off")
for number, title in enumerate(("image 0: the logo", "image 1: the diagram")):
    axes = figure.add_subplot(4, 2, 7 + number, title=title)
    axes.imshow(picture(page, number), cmap="gray", vmin=0, vmax=1)
    axes.axis("off")
plt.show()

# %% [markdown]
# ## One batch, one forest
#
# All pages have the same types, empty where a page has no such node, so they batch as
# they are. The batch holds one compiled hierarchy, a forest of 81 trees. Its families
# have fewer pairs of siblings than the pages have pairs of leaves: that is what
# attention along the tree saves.
# %%
batch = next(iter(DataLoader(site, batch_size=len(site))))
shape = tree_shape(batch)
print(batch.hierarchy)
print("leaves:", shape.leaves)
print("pairs of siblings:", shape.pairs, " pairs of leaves:", shape.flat_pairs)

# %% [markdown]
# ## The links
#
# The links are ordinary edges between pages, `site.links` [2, L]. The menu leads from
# every page to the same few. Such links say nothing of a section: leave them out, and
# follow the others both ways.

# %%
arriving = torch.bincount(site.links[1], minlength=len(site))
menu = arriving > len(site) / 2
print("in the menu:", [site.titles[i] for i in menu.nonzero().view(-1).tolist()])
links = site.links[:, ~menu[site.links[1]]]
within = (y[links[0]] == y[links[1]]).float().mean()
print(f"{links.size(1)} links left, {within:.0%} of them within a section")
links = torch.cat([links, links.flip(0)], dim=1)

# %% [markdown]
# ## The model
#
# An `HSATransformer` gives a vector for each tree, here for each page. Two layers of
# `SAGEConv` pass these along the links. Without links the same model has a linear head
# alone. What is a sequence and what a grid is said once, by type.


# %%
class LinkedPages(torch.nn.Module):
    def __init__(self, schema, num_classes, channels=32, num_link_layers=2):
        super().__init__()
        domains = dict.fromkeys(schema.internal_types, "sequence")
        self.pages = HSATransformer.from_schema(
            schema,
            out_channels=channels,
            channels=channels,
            vocab_sizes={"token": 32_768},  # words are hashed to so many ids
            num_layers=1,
            position=HierarchicalPosition(domains | {"image": "grid"}, 16),
        )
        self.convs = torch.nn.ModuleList(
            SAGEConv(channels, channels) for _ in range(num_link_layers)
        )
        self.head = torch.nn.Linear(channels, num_classes)

    def forward(self, batch, links):
        x = self.pages(batch)  # [pages, channels]
        for conv in self.convs:
            x = x + conv(x, links).relu()
        return self.head(x)


print(LinkedPages(site[0].schema, site.num_classes)(batch, links).shape)

# %% [markdown]
# ## With the links and without
#
# Four pages of each section are labelled; the model has to place all others. That is
# little, so the result depends on which pages they are: both models are trained on the
# same three draws.


# %%
def draw_labelled(seed, per_class=4):
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=generator)
    labelled = torch.zeros(len(y), dtype=torch.bool)
    for number in range(site.num_classes):
        labelled[order[y[order] == number][:per_class]] = True
    return labelled


def train(num_link_layers, seed, epochs=30):
    labelled = draw_labelled(seed)
    torch.manual_seed(seed)
    model = LinkedPages(
        site[0].schema, site.num_classes, num_link_layers=num_link_layers
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for _ in range(epochs):
        out = model(batch, links)
        loss = torch.nn.functional.cross_entropy(out[labelled], y[labelled])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        found = model(batch, links).argmax(dim=1)
    return found, labelled, float((found == y)[~labelled].float().mean())


alone = [train(0, seed) for seed in range(3)]
linked = [train(2, seed) for seed in range(3)]
for name, runs in (("without links", alone), ("with links", linked)):
    scores = torch.tensor([score for *_, score in runs])
    each = ", ".join(f"{score:.2f}" for score in scores)
    print(f"{name:14} {each}   mean {scores.mean():.2f}")

# %% [markdown]
# ## The graph, coloured by prediction
#
# The first draw. Shapes are the true sections, shades what was predicted. Mistakes have
# a thick black rim; small shapes are the labelled pages.

# %%
graph = networkx.Graph(links.T.tolist())
graph.add_nodes_from(range(len(site)))
at = networkx.spring_layout(graph, seed=4, k=0.25)
shapes, shades = "os^DP", plt.cm.viridis(torch.linspace(0, 1, 5).numpy())

figure, panels = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for axes, name, (found, labelled, score) in zip(
    panels, ("without links", "with links"), (alone[0], linked[0]), strict=True
):
    networkx.draw_networkx_edges(graph, at, ax=axes, edge_color="0.8", width=0.6)
    for node, (east, north) in at.items():
        wrong = found[node] != y[node]
        axes.plot(
            *(east, north, shapes[y[node]]),
            color=shades[found[node]],
            markersize=5 if labelled[node] else 9,
            markeredgecolor="black" if wrong else "0.6",
            markeredgewidth=2 if wrong else 0.5,
        )
    axes.set_title(f"{name}: {score:.0%} of the unlabelled pages are right")
    axes.axis("off")
figure.legend(
    handles=[
        Line2D([], [], marker=mark, color=shade, linestyle="", label=section)
        for mark, shade, section in zip(shapes, shades, site.classes, strict=True)
    ],
    loc="outside lower center",
    ncols=5,
    frameon=False,
)
plt.show()

# %% [markdown]
# Do not read more into this than it can hold: 61 pages to be placed, few epochs, short
# texts, and no setting was searched for. Titles and menus also have words that name a
# section. The experiment `website` leaves these out, has a validation set, other models
# to compare with and a second site: `hsa-pyg experiment website --dry-run` tells what
# it runs.
#
# Here one batch holds all pages. On a larger site encode some pages a step and remember
# the vectors of the others, as `hsa_pyg.experiments.models.LinkedPages` allows by its
# two methods `encode` and `classify`.

# %% [markdown]
# ## Where to go next
#
# - [Items with text and pictures](04_multimodal_items.ipynb): composing such trees by
#   hand, and attention between words and patches.
# - [From what you have to nested signals](../docs/converters.md#websites): websites of
#   your own, in one signal or page by page.
# - [Experiments](../docs/experiments.md#learning): the configuration `website`.
