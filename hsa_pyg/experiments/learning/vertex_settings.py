"""Settings of a run on the vertices of one graph, and what is usual for each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checks import check_heads, check_least, check_name
from hsa_pyg.experiments.models.global_attention import GLOBAL, LOCAL
from hsa_pyg.experiments.models.linked_pages import LINKS

WEBSITES = ("sqlite-site", "gimp-manual")
TASKS = ("cora", *WEBSITES)
#: What stands for a page: a transformer's output, or its words counted.
PAGES = ("hsa", "flat", "deepset", "words")
TREES = ("leiden", "louvain", "metis", "bisection", "random")

_USUAL: dict[str, Any] = {
    "channels": 64,
    "layers": 2,
    "heads": 4,
    "expansion": 2,
    "lr": 3e-3,
    "weight_decay": 0.1,
    "epochs": 300,
    "patience": 50,
    "dropout": 0.7,
    "local": "gcn",
    "tree": "leiden",
    "max_family": 64,
}
_OF_WEBSITES: dict[str, Any] = {
    "lr": 1e-3,
    "epochs": 60,
    "patience": 10,
    "dropout": 0.2,
    "weight_decay": 0.01,
    "links": "sage",
    "link_layers": 2,
    "images": True,
    "max_tokens": 128,
    "batch_size": 16,
    "train_share": 0.4,
}
_WEBSITES_ALONE = (
    "links",
    "link_layers",
    "images",
    "max_tokens",
    "batch_size",
    "train_share",
)
_CORA_ALONE = ("local", "tree", "max_family")


@dataclass
class VertexSettings:
    """What decides the outcome of a run; None is what is usual for the task.

    Args:
        task: ``"cora"``, ``"sqlite-site"`` or ``"gimp-manual"``.
        model: Cora: the global attention, ``"hsa"``, ``"multihead"``, ``"performer"``
            or ``"none"``. Websites: what makes a vector of a page, ``"hsa"``,
            ``"flat"``, ``"deepset"`` or ``"words"``, the tf-idf weights of its words.
        local: Cora: message passing beside the attention, ``"gcn"`` or ``"none"``.
        tree: Cora: how communities are found, or ``"random"``: the tree of
            ``"leiden"`` with papers at random places.
        max_family: Cora: members of a community, at most.
        links: Websites: ``"sage"``, ``"gat"`` or ``"none"`` along the links.
        link_layers: Layers along the links.
        images: Whether pages have their pictures.
        max_tokens: Tokens that are kept of each page.
        batch_size: Pages of a step.
        train_share: Share of the pages of each class that are trained on; as many as a
            fifth validate, the others test.
        channels: Width of the vectors.
        layers: Number of blocks.
        heads: Attention heads.
        expansion: Width of the MLPs' hidden layers, in ``channels``.
        dropout: Probability of what is dropped in training.
        lr: Learning rate.
        weight_decay: Of AdamW, on matrices.
        epochs: Most epochs.
        patience: Epochs without a better one after which training ends; 0 trains for
            all epochs.
    """

    task: str = "cora"
    model: str = "hsa"
    local: str | None = None
    tree: str | None = None
    max_family: int | None = None
    links: str | None = None
    link_layers: int | None = None
    images: bool | None = None
    max_tokens: int | None = None
    batch_size: int | None = None
    train_share: float | None = None
    channels: int | None = None
    layers: int | None = None
    heads: int | None = None
    expansion: int | None = None
    dropout: float | None = None
    lr: float | None = None
    weight_decay: float | None = None
    epochs: int | None = None
    patience: int | None = None


def complete_settings(settings: VertexSettings) -> VertexSettings:
    """Check the settings, fill in what is usual, and clear what plays no part.

    Raises:
        SettingsError: if a name is not known, a number out of range, or the heads do
            not divide the channels.
    """
    check_name("task", settings.task, TASKS)
    website = settings.task in WEBSITES
    check_name("model", settings.model, PAGES if website else GLOBAL)
    usual = {**_USUAL, **(_OF_WEBSITES if website else {})}
    chosen = {
        key: value for key, value in usual.items() if getattr(settings, key) is None
    }
    settings = replace(settings, **chosen)
    absent = set(_CORA_ALONE if website else _WEBSITES_ALONE)
    if website and settings.links == "none":
        absent.add("link_layers")
    if website and settings.model == "words":
        absent |= {"layers", "images", "expansion"}
    if settings.model != "hsa":
        absent |= {"tree", "max_family"}
    attends = settings.model in ("hsa", "flat", "multihead", "performer")
    if not attends and settings.links != "gat":
        absent.add("heads")
    cleared: dict[str, Any] = dict.fromkeys(sorted(absent))
    settings = replace(settings, **cleared)
    _check(settings)
    return settings


def _check(settings: VertexSettings) -> None:
    # GINE reads attributes of edges, which citations do not have.
    local = tuple(name for name in LOCAL if name != "gine")
    for name, known in (("local", local), ("tree", TREES), ("links", LINKS)):
        value = getattr(settings, name)
        if value is not None:
            check_name(name, value, known)
    if settings.local == "none" and settings.model == "none":
        raise SettingsError("model=none needs local=gcn: nothing else would be left.")
    least = {
        "max_family": 2,
        "link_layers": 1,
        "max_tokens": 1,
        "batch_size": 1,
        "channels": 1,
        "layers": 1,
        "heads": 1,
        "expansion": 1,
        "lr": 0,
        "weight_decay": 0,
        "epochs": 1,
        "patience": 0,
    }
    check_least(settings, least)
    if not 0.0 <= (settings.dropout or 0.0) < 1.0:
        raise SettingsError(f"dropout must be in [0, 1), got {settings.dropout}.")
    share = settings.train_share
    if share is not None and not 0.0 < share <= 0.7:
        raise SettingsError(
            f"train_share must be above 0 and at most 0.7, which leaves a tenth to "
            f"the test beside a fifth that validates, got {share}."
        )
    check_heads(settings)
