"""A pretrained text encoder with its tokenizer, and batches of texts for it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.labelled_texts import LabelledTexts, some_labels

#: Tokens of a batch, padding included.
TOKENS_OF_A_BATCH = 4096


@dataclass(frozen=True)
class TextModel:
    """A model and its tokenizer.

    Args:
        name: Its folder or its name on the hub.
        model: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        has_head: Whether it classifies.
    """

    name: str
    model: Any
    tokenizer: Any
    has_head: bool

    @property
    def positions(self) -> int | None:
        """Tokens that its positions reach to; None if it names no end."""
        from hsa_pyg.integrations.transformers.positions import text_positions

        return text_positions(self.model)

    @property
    def longest(self) -> int | None:
        """Tokens of a text that model and tokenizer take."""
        known = [self.positions, self.tokenizer.model_max_length]
        # Tokenizers without an end name a number beyond all texts.
        return min((x for x in known if x is not None and x < 10**9), default=None)

    def with_positions(self, length: int) -> TextModel:
        """A copy that takes ``length`` tokens, or itself if it does.

        Raises:
            SettingsError: If its positions cannot be stretched.
        """
        from hsa_pyg.integrations.transformers import extend_positions

        if self.positions is None or length <= self.positions:
            return self
        try:
            model = extend_positions(copy.deepcopy(self.model), length)
        except NotImplementedError as error:
            raise SettingsError(
                f"{self.name} takes {self.positions} tokens, and its positions cannot "
                f"be stretched: {error}."
            ) from error
        return TextModel(self.name, model, self.tokenizer, self.has_head)

    def batches(
        self, texts: Sequence[str], max_length: int | None
    ) -> tuple[list[Mapping[str, Any]], list[int], int]:
        """Batches of about 4,096 tokens, of texts of like length.

        Args:
            texts: The texts.
            max_length: Tokens that a text is cut to.

        Returns:
            The batches, with ``texts`` and ``offset_mapping`` where the tokenizer knows
            them; the place of each sample among the texts; and the number of texts
            that were cut.
        """
        whole = self.tokenizer(list(texts), truncation=False, verbose=False)
        lengths = [len(ids) for ids in whole["input_ids"]]
        most = max(lengths) if max_length is None else max_length
        cut = sum(length > most for length in lengths)
        lengths = [min(most, length) for length in lengths]
        order = sorted(range(len(texts)), key=lambda i: (lengths[i], i))
        groups: list[list[int]] = [[]]
        for place in order:
            # Sorted: the last one of a batch is its longest.
            tokens = lengths[place] * (len(groups[-1]) + 1)
            if groups[-1] and tokens > TOKENS_OF_A_BATCH:
                groups.append([])
            groups[-1].append(place)
        return (
            [self._batch([texts[i] for i in group], most) for group in groups],
            (order),
            cut,
        )

    def _batch(self, texts: list[str], most: int) -> Mapping[str, Any]:
        fast = bool(getattr(self.tokenizer, "is_fast", False))
        encoded = self.tokenizer(
            texts,
            padding=True,
            # Padding before a text would shift its positions.
            padding_side="right",
            truncation=True,
            max_length=most,
            return_offsets_mapping=fast,
            return_tensors="pt",
        )
        self._check_ids(encoded["input_ids"])
        device = next(self.model.parameters()).device
        batch = {
            key: x if key == "offset_mapping" else x.to(device)
            for key, x in encoded.items()
        }
        return {**batch, "texts": texts} if fast else batch

    def _check_ids(self, ids: Tensor) -> None:
        """Raise a SettingsError if the model has no vector for a token."""
        table = self.model.get_input_embeddings()
        most = getattr(table, "num_embeddings", None)
        if most is not None and ids.numel() and int(ids.max()) >= most:
            raise SettingsError(
                f"The tokenizer beside {self.name} gives a token the number "
                f"{int(ids.max())}, but the model has vectors for {most}: they do not "
                "belong together."
            )


def load_text_model(name: str, *, head: bool, device: str = "cpu") -> TextModel:
    """Load a model and its tokenizer.

    Args:
        name: A folder, or a name on the hub of transformers.
        head: Whether to load the classifier of a model that has one.
        device: Torch's name of the device.

    Raises:
        ImportError: If transformers is not installed.
        OSError: If there is no such model.
        SettingsError: If it cannot be read, or the device is not there.
    """
    try:
        from transformers import (
            AutoConfig,
            AutoModel,
            AutoModelForSequenceClassification,
            AutoTokenizer,
        )

        from hsa_pyg.integrations.transformers.text_vectors import check_vocabulary
    except ImportError as error:
        raise ImportError(
            f"hsa-pyg zero-shot needs transformers ({error}): "
            'pip install "hsa-pyg[transformers]".'
        ) from error
    try:
        config = AutoConfig.from_pretrained(name)
        named = config.architectures or []
        classifies = any("ForSequenceClassification" in x for x in named)
        use_head = head and classifies
        kind = AutoModelForSequenceClassification if use_head else AutoModel
        model = kind.from_pretrained(name).eval().to(device)
        tokenizer = AutoTokenizer.from_pretrained(name)
        check_vocabulary(tokenizer)
    except OSError as error:
        raise OSError(f"{name!r} cannot be loaded: {error}") from error
    except (ValueError, RuntimeError, AssertionError) as error:
        raise SettingsError(f"{name!r} cannot be loaded: {error}") from error
    return TextModel(name, model, tokenizer, use_head)


def class_numbers(
    data: LabelledTexts, label2id: Mapping[str, int], renamed: Mapping[str, str]
) -> list[int]:
    """The model's number of the class of every text.

    Args:
        data: The texts with labels.
        label2id: The model's classes.
        renamed: What the model calls a label of the data.

    Raises:
        SettingsError: If a label is none of the model's.
    """
    labels = [renamed.get(label, label) for label in data.labels or []]
    known = {str(name): int(number) for name, number in label2id.items()}
    names = {str(number): number for number in known.values()} | known
    if all(label in names for label in set(labels)):
        return [names[label] for label in labels]
    classes = ", ".join(f"{name} = {number}" for name, number in known.items())
    found = sorted(set(data.labels or []))
    raise SettingsError(
        f"The data has the labels {some_labels(found)}; the "
        f"model has the classes {classes}. Say which is which by --class, as in "
        f"--class {(found or ['x'])[0][:40]}={next(iter(known), 0)}, or pass "
        "--no-labels or --probe."
    )
