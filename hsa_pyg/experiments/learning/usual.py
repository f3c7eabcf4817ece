"""What is usual for a learning run, by its task and regime."""

from __future__ import annotations

from typing import Any

_USUAL: dict[str, Any] = {
    "regime": "tuned",
    "features": "learned",
    "tune_vectors": False,
    "tree": "own",
    "depth": 0,
    "group": 0,
    "position": True,
    "position_channels": 16,
    "channels": 64,
    "layers": 2,
    "heads": 4,
    "expansion": 2,
    "block": "pre_norm",
    "self_attention": True,
    "readout": "mean",
    "window": 128,
    "dropout": 0.2,
    "lr": 1e-3,
    "weight_decay": 0.01,
    "warmup": 0.1,
    "schedule": "cosine",
    "batch_size": 16,
    "accumulate": 1,
    "clip": 1.0,
    "precision": "32",
    "epochs": 20,
    "patience": 5,
    "max_tokens": 0,
    "train_size": 0,
    "val_size": 0,
    "test_size": 0,
    "binary": False,
    "each_phrase": False,
    "phrase_weight": 1.0,
    "parts": "both",
    "target": "category",
}
_OF_TASK: dict[str, dict[str, Any]] = {
    "imdb": {"batch_size": 32, "epochs": 10, "patience": 3, "train_size": 5_000}
    | {"val_size": 2_000},
    "elec": {"batch_size": 32, "epochs": 10, "patience": 3, "train_size": 5_000}
    | {"val_size": 2_000},
    "sst": {"batch_size": 64, "window": 5, "lr": 2e-3, "epochs": 10, "patience": 4},
    "emoji": {"batch_size": 32, "epochs": 25, "patience": 8, "dropout": 0.4},
    "clip-art": {"batch_size": 32},
    "n24news": {"batch_size": 32, "epochs": 5, "patience": 2},
    "bbbp": {"batch_size": 32, "epochs": 40, "patience": 10},
    "esol": {"batch_size": 32, "epochs": 60, "patience": 0, "dropout": 0.1},
    # A tenth of Long Range Arena's training set; its own sizes of the others.
    "list-ops": {"layers": 4, "batch_size": 32, "dropout": 0.1, "train_size": 9_600}
    | {"val_size": 2_000, "test_size": 2_000},
}
#: The paper's settings of texts (its appendix). Models whose MLPs have no width of
#: their own take that of ``expansion``.
_PAPER: dict[str, Any] = {
    "channels": 384,
    "layers": 1,
    "heads": 3,
    "expansion": 1,
    "hidden": 128,
    "block": "paper",
    "self_attention": False,
    "position_channels": 768,
    "dropout": 0.1,
    "lr": 2e-5,
    "warmup": 0.0,
    "schedule": "linear",
    "batch_size": 64,
    "epochs": 30,
    "patience": 0,
}


def usual_settings(task: str, regime: str | None) -> dict[str, Any]:
    """The values of settings that are not given.

    Args:
        task: One of the tasks of learning.
        regime: ``"paper"`` for the paper's settings, else those of the task.
    """
    paper = _PAPER if regime == "paper" else {}
    return {**_USUAL, **_OF_TASK.get(task, {}), **paper}
