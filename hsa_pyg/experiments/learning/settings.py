"""Settings of a learning run, and what is usual for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checks import check_heads, check_least, check_name
from hsa_pyg.experiments.learning.task import TASKS
from hsa_pyg.experiments.learning.usual import usual_settings
from hsa_pyg.experiments.models.global_attention import GLOBAL, LOCAL

BAG_OF_WORDS = "bag-of-words"
#: What is trained; ``bag-of-words`` is fitted by scikit-learn.
MODELS = ("hsa", "flat", "deepset", "segment", "hgt", "gps", "performer", BAG_OF_WORDS)
#: Of molecules besides: message passing along bonds, and attention among atoms.
GRAPH_MODELS = tuple(
    f"{local}-{attention}"
    for local, attention in product(LOCAL, GLOBAL)
    if (local, attention) != ("none", "none")
)
REGIMES = ("tuned", "paper")
FEATURES = ("learned", "glove", "minilm-tokens", "minilm-words", "minilm-sentences")
#: Features of words and tokens that may be trained on.
_TABLES = ("glove", "minilm-tokens")
READOUTS = ("mean", "sum", "max", "min", "attention")
TREES = ("own", "random", "windows", "flat")
BLOCKS = ("pre_norm", "paper")
SCHEDULES = ("cosine", "linear")
PRECISIONS = ("32", "bf16", "16")
#: Tasks of documents: document > paragraph > sentence > token.
DOCUMENTS = ("movie-reviews", "imdb", "elec")
ITEMS = ("emoji", "clip-art", "n24news")
MOLECULES = ("bbbp", "esol")
PARTS = ("text", "image", "both")
TARGETS = ("category", "subcategory")

#: What a model does not have, and what is written in its place.
_ABSENT: dict[str, tuple[str, ...]] = {
    "hsa": ("window",),
    "flat": ("window",),
    "deepset": ("window", "heads", "self_attention", "position", "position_channels"),
    "segment": ("hidden", "block", "self_attention"),
    "hgt": ("hidden", "window", "block", "self_attention"),
    "gps": ("hidden", "window", "block", "self_attention", "expansion"),
    "performer": ("hidden", "window", "block", "self_attention", "expansion"),
}
#: What a bag of words reads.
_SIZES = {"train_size", "val_size", "test_size"}
_OF_BAG = {
    *("task", "model", "fold", "binary", "each_phrase", "parts", "target"),
    *_SIZES,
}


@dataclass
class LearningSettings:
    """What decides the outcome of a run; None is what is usual for the task.

    Args:
        task: One of :data:`~hsa_pyg.experiments.learning.task.TASKS`.
        model: One of :data:`MODELS`, for molecules also of :data:`GRAPH_MODELS`.
        regime: ``"tuned"``, or ``"paper"``: what else is not set is as in the paper.
        features: Vectors of the leaves: ``"learned"`` with the rest; ``"glove"``, fixed
            word vectors; ``"minilm-tokens"``, a pretrained encoder's fixed table of
            tokens; ``"minilm-words"``, of SST, its fixed states of the words in their
            sentences; or ``"minilm-sentences"``, its fixed vectors of sentences, which
            then are the leaves.
        tune_vectors: Whether vectors of words or tokens are trained with the rest,
            from what they are.
        vectors: File of other word vectors, in the text form of GloVe and word2vec, or
            folder of another encoder.
        tree: ``"own"``; ``"random"``, the own one with its leaves at random places;
            ``"windows"``, windows of ``windows`` leaves; or ``"flat"``, all leaves
            below the root.
        windows: Widths of the windows from the bottom up: leaves, then windows.
        depth: Levels of the own tree that are kept, from the root; 1 leaves all leaves
            below the root. 0 keeps all.
        group: Inner nodes that are put under a node of their own, if there are more
            below one: sentences become blocks. 0 makes none.
        position: Whether a node tells its place among its siblings.
        position_channels: Size of these vectors.
        channels: Width of the leaf vectors.
        layers: Number of blocks.
        heads: Attention heads.
        expansion: Width of the MLPs' hidden layers, in ``channels``.
        hidden: Width of the MLPs' hidden layers, instead of by ``expansion``; None
            leaves it to that. Of hsa, flat and deepset.
        block: ``"pre_norm"`` or ``"paper"``.
        self_attention: Whether a leaf attends to itself.
        readout: From leaves to trees, see :class:`~hsa_pyg.nn.LeafReadout`.
        window: Leaves of a segment of the model ``segment``.
        dropout: Probability of what is dropped in training.
        lr: Highest learning rate.
        weight_decay: Of AdamW, on matrices.
        warmup: Part of all steps over which the learning rate rises.
        schedule: How it falls to zero: ``"cosine"`` or ``"linear"``.
        batch_size: Signals of a batch.
        accumulate: Batches whose gradients make one step.
        clip: Largest norm of a gradient; 0 for none.
        precision: ``"32"``, ``"bf16"`` or ``"16"``: the latter two mixed with 32.
        epochs: Most epochs.
        patience: Epochs without a better validation score after which training ends; 0
            trains for all epochs.
        max_tokens: Tokens that are kept of each document, of n24news of each text; 0
            keeps all.
        train_size: Training signals, drawn once for all seeds; 0 for all.
        val_size: The same of validation.
        test_size: The same of the test.
        fold: Of the ten folds of movie reviews the one that is tested, 0 to 9; the next
            one validates. None for the fixed split.
        binary: SST without neutral sentences, in two classes.
        each_phrase: Whether each distinct phrase of SST's training sentences is a
            training signal of its own, as a sentence is.
        phrase_weight: Weight of the loss on every phrase of SST, read within its
            sentence, beside that on whole sentences.
        length: Lengths of list-ops lie between these two.
        parts: What an item of emoji, clip-art or n24news is known by: ``"text"``,
            ``"image"`` or ``"both"``.
        target: Of emoji, ``"category"`` or ``"subcategory"``.
    """

    task: str = "movie-reviews"
    model: str = "hsa"
    regime: str | None = "tuned"
    features: str | None = "learned"
    tune_vectors: bool | None = False
    vectors: str | None = None
    tree: str | None = "own"
    windows: list[int] = field(default_factory=lambda: [8, 8, 8])
    depth: int | None = 0
    group: int | None = 0
    position: bool | None = True
    position_channels: int | None = None
    channels: int | None = None
    layers: int | None = None
    heads: int | None = None
    expansion: int | None = None
    hidden: int | None = None
    block: str | None = None
    self_attention: bool | None = None
    readout: str | None = "mean"
    window: int | None = None
    dropout: float | None = None
    lr: float | None = None
    weight_decay: float | None = None
    warmup: float | None = None
    schedule: str | None = None
    batch_size: int | None = None
    accumulate: int | None = 1
    clip: float | None = 1.0
    precision: str | None = "32"
    epochs: int | None = None
    patience: int | None = None
    max_tokens: int | None = 0
    train_size: int | None = None
    val_size: int | None = None
    test_size: int | None = None
    fold: int | None = None
    binary: bool | None = False
    each_phrase: bool | None = False
    phrase_weight: float | None = 1.0
    length: list[int] = field(default_factory=lambda: [500, 2_000])
    parts: str | None = "both"
    target: str | None = "category"


def complete_settings(settings: LearningSettings) -> LearningSettings:
    """Check the settings, fill in what is usual, and clear what plays no part.

    Raises:
        SettingsError: if a name is not known or a number out of range, or they do not
            go together.
    """
    task = settings.task.lower().replace("_", "-")
    settings = replace(settings, task=task)
    _check_names(settings)
    usual = usual_settings(task, settings.regime)
    if settings.expansion is not None:
        if settings.hidden is not None:
            raise SettingsError(
                "expansion and hidden both tell how wide MLPs are: set one of them."
            )
        usual.pop("hidden", None)
    settings = replace(
        settings,
        **{
            key: value for key, value in usual.items() if getattr(settings, key) is None
        },
    )
    _check_numbers(settings)
    _check_together(settings)
    return _clear(settings)


def _clear(settings: LearningSettings) -> LearningSettings:
    task, documents = settings.task, settings.task in DOCUMENTS
    absent = set(_ABSENT.get(settings.model, ()))
    if settings.model in GRAPH_MODELS:
        absent |= {"hidden", "window", "block", "self_attention"}
        if settings.model.endswith("-none"):
            absent.add("heads")
    if "hidden" not in absent and settings.hidden is not None:
        absent.add("expansion")
    if not settings.position:
        absent.add("position_channels")
    if settings.features == "learned":
        absent.add("vectors")
    if settings.features not in _TABLES:
        absent.add("tune_vectors")
    if settings.tree != "own":
        absent |= {"depth", "group"}
    if not documents and task != "n24news":
        absent.add("max_tokens")
    if not documents and task != "sst":
        absent |= {"features", "tune_vectors"}
    if task not in ITEMS:
        absent.add("parts")
    if task != "emoji":
        absent.add("target")
    if task in ITEMS + MOLECULES:
        absent |= _SIZES
    if task in MOLECULES:
        absent |= {"position", "position_channels"}
    if task != "movie-reviews":
        absent.add("fold")
    if task != "sst":
        absent |= {"binary", "each_phrase", "phrase_weight"}
    elif (
        settings.each_phrase
        or settings.tree != "own"
        or settings.depth
        or settings.group
    ):
        # Phrases are signals already, or those of another tree have no label.
        settings = replace(settings, phrase_weight=0.0)
    if settings.model == BAG_OF_WORDS:
        lists = ("windows", "length")
        names = {one.name for one in fields(settings)} - {*_OF_BAG, *lists}
        absent |= names
    windows = settings.windows if settings.tree == "windows" else []
    if settings.model == BAG_OF_WORDS:
        windows = []
    length = settings.length if task == "list-ops" else []
    cleared: Mapping[str, Any] = dict.fromkeys(sorted(absent))
    return replace(settings, **cleared, windows=windows, length=length)


def _check_names(settings: LearningSettings) -> None:
    for key, known in (
        ("task", tuple(TASKS)),
        ("model", MODELS + GRAPH_MODELS),
        ("regime", REGIMES),
        ("features", FEATURES),
        ("tree", TREES),
        ("readout", READOUTS),
        ("block", BLOCKS),
        ("schedule", SCHEDULES),
        ("precision", PRECISIONS),
        ("parts", PARTS),
        ("target", TARGETS),
    ):
        value = getattr(settings, key)
        if value is not None:
            check_name(key, value, known)


def _check_numbers(settings: LearningSettings) -> None:
    least = {
        "depth": 0,
        "group": 0,
        "position_channels": 2,
        "channels": 1,
        "layers": 1,
        "heads": 1,
        "expansion": 1,
        "hidden": 1,
        "window": 1,
        "batch_size": 1,
        "accumulate": 1,
        "clip": 0,
        "lr": 0,
        "weight_decay": 0,
        "epochs": 1,
        "patience": 0,
        "max_tokens": 0,
        "train_size": 0,
        "val_size": 0,
        "test_size": 0,
        "fold": 0,
        "phrase_weight": 0,
    }
    check_least(settings, least)
    for name in ("dropout", "warmup"):
        value = getattr(settings, name)
        if value is not None and not 0.0 <= value < 1.0:
            raise SettingsError(f"{name} must be in [0, 1), got {value}.")
    if settings.fold is not None and settings.fold > 9:
        raise SettingsError(f"fold must be 0 to 9, got {settings.fold}.")
    if settings.group == 1:
        raise SettingsError("group must be 0, or at least 2 nodes, got 1.")
    if any(width < 2 for width in settings.windows):
        raise SettingsError(f"windows must be at least 2 wide, got {settings.windows}.")
    wide = 4 if settings.task in ITEMS else 2  # two coordinates, or one
    if settings.position and (settings.position_channels or 0) % wide:
        raise SettingsError(f"position_channels must be a multiple of {wide}.")
    if settings.task == "list-ops" or settings.length:
        low, high = [*settings.length, 0, 0][:2]
        if len(settings.length) != 2 or not 1 < low < high:
            raise SettingsError(
                "length takes two numbers, the second above the first, got "
                f"{settings.length}."
            )


def _check_together(settings: LearningSettings) -> None:
    task = settings.task
    if task in ITEMS + MOLECULES:
        asked = {"tree": settings.tree != "own", "depth": settings.depth}
        asked |= {"group": settings.group}
        asked |= {name: getattr(settings, name) for name in sorted(_SIZES)}
        for name, value in asked.items():
            if value:
                raise SettingsError(f"The task {task!r} has no choice of {name}.")
    if settings.model in GRAPH_MODELS and task not in MOLECULES:
        raise SettingsError(
            f"The model {settings.model!r} reads bonds, which {task!r} has "
            f"none of: use one of {', '.join(MODELS)}."
        )
    if settings.model == BAG_OF_WORDS:
        return
    if settings.features == "learned" and settings.vectors:
        raise SettingsError("vectors is for features=glove and those of an encoder.")
    check_heads(settings)
    if settings.model == "segment" and (settings.layers or 0) < 2:
        raise SettingsError("The model 'segment' needs layers=2 at least.")
    if settings.tree == "windows" and not settings.windows:
        raise SettingsError("tree=windows needs windows, such as windows=[8,8].")
    known: Sequence[str] = ("learned",)
    if task in DOCUMENTS:
        known = [name for name in FEATURES if name != "minilm-words"]
    elif task == "sst":
        known = ("learned", "glove", "minilm-words")
    if settings.features not in known:
        raise SettingsError(
            f"The task {task!r} has no features {settings.features!r}, but "
            f"{', '.join(known)}."
        )
    if settings.tune_vectors and settings.features not in _TABLES:
        raise SettingsError(f"tune_vectors is for features={' or '.join(_TABLES)}.")
