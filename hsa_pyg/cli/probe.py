"""A linear classifier on the mean states of an encoder that has no head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.text_model import TextModel
from hsa_pyg.integrations.transformers.comparison import run_batch
from hsa_pyg.integrations.transformers.scores import mean_state


@dataclass(frozen=True)
class Probe:
    """A logistic regression on the mean of the last hidden states.

    Args:
        classes: Names of the classes.
        weight: [classes, channels].
        bias: [classes].
    """

    classes: tuple[str, ...]
    weight: Tensor
    bias: Tensor

    def __call__(self, output: Any, batch: Mapping[str, Any]) -> Tensor:
        """Scores [B, classes] of a model's output."""
        return mean_state(output, batch).double().cpu() @ self.weight.T + self.bias

    @property
    def label2id(self) -> dict[str, int]:
        """Number of each class."""
        return {name: number for number, name in enumerate(self.classes)}


def fit_probe(
    encoder: TextModel,
    texts: Sequence[str],
    labels: Sequence[str],
    max_length: int | None,
) -> Probe:
    """Fit a logistic regression on standardised features of the original model.

    Args:
        encoder: The model; its attention must not be replaced.
        texts: Training texts.
        labels: Their classes.
        max_length: Tokens that a text is cut to.

    Raises:
        ImportError: If scikit-learn is not installed.
        SettingsError: If there are fewer than two classes.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise ImportError(
            f"hsa-pyg zero-shot --probe needs scikit-learn ({error}): "
            'pip install "hsa-pyg[transformers]".'
        ) from error
    classes = tuple(sorted(set(labels)))
    if len(classes) < 2:
        raise SettingsError(
            f"The {len(texts)} training texts of the probe have {len(classes)} class; "
            "it needs two at least: give more texts by --train or --train-samples."
        )
    features, order = features_of(encoder, texts, max_length)
    scaler = StandardScaler().fit(features.numpy())
    numbers = [classes.index(labels[place]) for place in order]
    model = LogisticRegression(max_iter=2000)
    model.fit(scaler.transform(features.numpy()), numbers)
    weight = torch.from_numpy(model.coef_ / scaler.scale_)
    bias = torch.from_numpy(model.intercept_) - weight @ torch.from_numpy(scaler.mean_)
    if len(classes) == 2:  # one row, of the second class
        weight = torch.cat([torch.zeros_like(weight), weight])
        bias = torch.cat([torch.zeros_like(bias), bias])
    return Probe(classes, weight, bias)


def features_of(
    encoder: TextModel, texts: Sequence[str], max_length: int | None
) -> tuple[Tensor, list[int]]:
    """Mean states [S, C] in float64, and the place of each among the texts."""
    batches, order, _ = encoder.batches(texts, max_length)
    rows = [
        mean_state(run_batch(encoder.model, batch), batch).double().cpu()
        for batch in tqdm(batches, "probe", leave=False)
    ]
    return torch.cat(rows), order
