"""A logistic regression on the embeddings of the original model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from hsa_pyg.integrations.transformers.scores import mean_state

#: Inverse strengths of the penalty that are tried.
STRENGTHS = tuple(float(x) for x in np.logspace(-1, 4, 11))


def embedding(output: Any, batch: Mapping[str, Any]) -> Tensor:
    """A sentence's embedding: the mean of its last hidden states, of length 1."""
    return nn.functional.normalize(mean_state(output, batch))


@torch.no_grad()
def embeddings(model: nn.Module, batches: Sequence[Mapping[str, Any]]) -> Tensor:
    """[S, C] embeddings of all samples by the original model."""
    found = []
    for batch in tqdm(batches, "features", leave=False):
        output = model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        )
        found.append(embedding(output, batch))
    return torch.cat(found)


@dataclass(frozen=True)
class Probe:
    """A linear classifier of two classes.

    Args:
        weight: [C].
        bias: of the second class.
        strength: the inverse penalty that cross-validation chose.
        accuracy: what it gave in cross-validation.
    """

    weight: list[float]
    bias: float
    strength: float
    accuracy: float

    def read(self, output: Any, batch: Mapping[str, Any]) -> Tensor:
        """Scores [B, 2] of a batch."""
        features = embedding(output, batch)
        score = features.double() @ torch.tensor(self.weight).double() + self.bias
        return torch.stack([torch.zeros_like(score), score], 1)


def fit(features: Tensor, labels: Sequence[int]) -> Probe:
    """Fit a probe; five folds of these samples choose its penalty.

    Args:
        features: [S, C].
        labels: [S], 0 or 1.

    Raises:
        ImportError: if scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_score
    except ImportError as error:
        raise ImportError(
            'Probes need scikit-learn: pip install "hsa-pyg[transformers]".'
        ) from error
    x, y = features.double().numpy(), np.asarray(labels)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)

    def regression(strength: float) -> Any:
        return LogisticRegression(C=strength, max_iter=5000)

    means = [
        float(cross_val_score(regression(strength), x, y, cv=folds).mean())
        for strength in STRENGTHS
    ]
    best = int(np.argmax(means))
    fitted = regression(STRENGTHS[best]).fit(x, y)
    weight = [float(value) for value in fitted.coef_[0]]
    return Probe(weight, float(fitted.intercept_[0]), STRENGTHS[best], means[best])
