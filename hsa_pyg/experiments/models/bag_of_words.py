"""The floor: word counts and a linear classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: The largest C that is tried, however the accuracy grows up to there.
_LARGEST_C = 1e4


@dataclass(frozen=True, eq=False)
class BagOfWords:
    """A fitted classifier of texts.

    Args:
        pipeline: The scikit-learn pipeline, fitted on all training texts.
        C: The chosen inverse of the regularisation's strength.
        scores: Accuracy on what was held out, of each C that was tried.
    """

    pipeline: Any
    C: float
    scores: Mapping[float, float]

    @property
    def num_features(self) -> int:
        """Number of words and pairs of words."""
        return len(self.pipeline[0].vocabulary_)

    def predict(self, texts: Sequence[str]) -> Tensor:
        """The class of each text, [n] long."""
        return torch.from_numpy(self.pipeline.predict(list(texts))).long()


def bag_of_words(
    train_texts: Sequence[str],
    train_labels: Sequence[int] | Tensor,
    *,
    grid: Sequence[float] = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    folds: int = 5,
    max_ngram: int = 2,
    min_count: int = 2,
    seed: int = 0,
    validation: tuple[Sequence[str], Sequence[int] | Tensor] | None = None,
) -> BagOfWords:
    r"""Logistic regression on the tf-idf weights of words and pairs of words.

    The strength of its regularisation is chosen by cross-validation within the training
    texts, of which each fold counts its own vocabulary, or by validation texts; the
    smallest of equally good C is taken. Where the largest of several is the best, ever
    larger ones are tried, each three times the one before, up to 10,000.

    Args:
        train_texts: The training texts.
        train_labels: Their classes.
        grid: The inverse strengths C to try; one alone is taken as it is.
        folds: Number of folds.
        max_ngram: Words in a row that count as a feature, at most.
        min_count: Features of fewer texts are left out.
        seed: Of the folds.
        validation: Texts and their classes to choose C by, in place of folds. For
            training texts that are parts of one another, such as phrases: those that
            are held out would have been seen within others.

    Raises:
        ImportError: if scikit-learn is not installed.
        ValueError: if there is not a label per text, or no class has as many texts as
            there are folds, of two classes both; if the validation has no text.
    """
    try:
        from sklearn.model_selection import StratifiedKFold
        from sklearn.pipeline import make_pipeline
    except ImportError as error:
        raise ImportError(
            'A bag of words needs scikit-learn: pip install "hsa-pyg[transformers]".'
        ) from error
    texts, labels = _labelled(train_texts, train_labels)
    if not grid:
        raise ValueError("'grid' is empty; give at least one C")
    classes, counts = labels.unique(return_counts=True)
    # Of many classes rare ones may lack in a fold, which then cannot tell them.
    enough = counts.min() if classes.numel() == 2 else counts.max()
    needed, whose = (folds, " (the folds)") if validation is None else (1, "")
    if classes.numel() < 2 or int(enough) < needed:
        raise ValueError(
            f"the classes {classes.tolist()} have {counts.tolist()} texts, but there "
            f"must be two classes with at least {needed} each{whose}"
        )
    y = labels.numpy()
    trials: list[tuple[Sequence[str], Any, Sequence[str], Any]]
    if validation is None:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        trials = [
            ([texts[i] for i in inside], y[inside], [texts[i] for i in out], y[out])
            for inside, out in splitter.split(texts, y)
        ]
    else:
        judged, classes_of = _labelled(*validation)
        if not judged:
            raise ValueError("'validation' has no text to choose C by")
        trials = [(texts, y, judged, classes_of.numpy())]
    counted = []
    for inside, known, outside, asked in trials:
        counter = _counter(max_ngram, min_count)
        # Counted once a fold, not once a fold and C.
        features = counter.fit_transform(inside)
        counted.append((features, known, counter.transform(outside), asked))

    def accuracy(c: float) -> float:
        right = total = 0
        for features, known, held_out, asked in counted:
            classifier = _classifier(c, classes.numel(), seed).fit(features, known)
            right += int((classifier.predict(held_out) == asked).sum())
            total += len(asked)
        return right / total

    scores = {c: accuracy(c) for c in sorted(grid)}
    while len(scores) > 1 and _best(scores) == max(scores) <= _LARGEST_C / 3:
        larger = 3 * max(scores)
        scores[larger] = accuracy(larger)
    best = _best(scores)
    pipeline = make_pipeline(
        _counter(max_ngram, min_count), _classifier(best, classes.numel(), seed)
    )
    return BagOfWords(pipeline.fit(texts, y), best, scores)


def _labelled(
    texts: Sequence[str], labels: Sequence[int] | Tensor
) -> tuple[list[str], Tensor]:
    """Both as they are used, of one length."""
    texts, labels = list(texts), torch.as_tensor(labels, dtype=torch.long).view(-1)
    if len(texts) != labels.numel():
        raise ValueError(f"{len(texts)} texts have {labels.numel()} labels")
    return texts, labels


def _best(scores: Mapping[float, float]) -> float:
    return max(scores, key=lambda c: (scores[c], -c))


def _counter(max_ngram: int, min_count: int) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    # Words of one letter and marks count, too: "!" tells of sentiment.
    return TfidfVectorizer(
        ngram_range=(1, max_ngram),
        min_df=min_count,
        sublinear_tf=True,
        token_pattern=r"\w+(?:'\w+)?|[^\w\s]",
    )


def _classifier(c: float, num_classes: int, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    # Coordinate descent is several times faster, but knows two classes alone.
    solver = "liblinear" if num_classes == 2 else "lbfgs"
    return LogisticRegression(C=c, solver=solver, max_iter=1000, random_state=seed)
