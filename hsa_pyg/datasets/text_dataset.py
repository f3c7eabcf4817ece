"""What data sets of labelled texts share."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from hsa_pyg.converters import DocumentConverter, EmptyDocumentError
from hsa_pyg.data import NestedSignal
from hsa_pyg.datasets.stored_whole import StoredWhole
from hsa_pyg.datasets.word_dataset import WordDataset, check_split, describe


@dataclass(frozen=True)
class LabelledText:
    """A document of a data set.

    Args:
        name: Its name, which no other document has.
        text: Its text.
        label: Place of its class in the data set's ``classes``.
        split: ``"train"``, ``"val"`` or ``"test"``.
        attributes: What else the signal shall hold, a tensor each.
    """

    name: str
    text: str
    label: int
    split: str
    attributes: Mapping[str, Tensor] = field(default_factory=dict)


class RawTexts(NamedTuple):
    """Texts and labels, for baselines that need no tree.

    Args:
        texts: The text of each document.
        labels: ``[num_documents]`` long.
    """

    texts: list[str]
    labels: Tensor


class TextDataset(WordDataset, StoredWhole):
    r"""Base class of data sets of texts with a label each.

    Each text is a signal document > paragraph > sentence > token as
    :class:`~hsa_pyg.converters.DocumentConverter` describes it. ``y`` is ``[1]`` long,
    the place of the class in ``classes``; ``source`` is the name of the document. The
    spans count in the text that :meth:`text` gives.

    Without a tokenizer of your own, a vocabulary of words is counted on the training
    split alone and kept with the processed data. Texts without a token are left out
    and counted in :attr:`report`.

    A data set says what its ``classes`` are and gives its :meth:`documents`.

    Args:
        root: Folder for raw and processed data.
        split: ``"train"``, ``"val"`` or ``"test"``. None gives all documents.
        tokenizer: A ``tokenizers.Tokenizer`` or a fast tokenizer of transformers.
        max_vocab_size: Size of the vocabulary, at most, unless a tokenizer is given.
        min_frequency: Words seen less often in the training split become ``[UNK]``.
        max_tokens: Keep the first so many tokens of each document. None keeps all.
        keep_text: Keep the text in the signals, as ``document.text``. Without it,
            :meth:`text` reads the raw files.
        transform: Called on each signal at every access.
        pre_transform: Called on each signal before it is stored.
        pre_filter: Says of each signal whether to keep it.
        force_reload: Process the documents again.
        log: Show a progress bar while processing.

    Raises:
        ValueError: If ``split`` is not known or a setting is out of its range.
        TypeError: If the tokenizer cannot be saved.

    Shapes:
        - ``token.x``: ``[num_tokens]`` long, ids below :attr:`vocab_size`
        - ``token.span``: ``[num_tokens, 2]`` long
        - ``y``: ``[1]`` long
    """

    classes: tuple[str, ...] = ()
    sentences: Literal["prose", "lines"] = "prose"
    #: What the report calls documents, and those that are left out as empty.
    unit = "texts"
    empty = "texts without a token"

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: Literal["train", "val", "test"] | None = None,
        *,
        tokenizer: Any = None,
        max_vocab_size: int = 20_000,
        min_frequency: int = 2,
        max_tokens: int | None = None,
        keep_text: bool = False,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        pre_filter: Callable | None = None,
        force_reload: bool = False,
        log: bool = True,
    ) -> None:
        check_split(split, "all documents")
        self.split = split
        self.max_tokens = max_tokens
        self.keep_text = keep_text
        self._use_tokenizer(tokenizer, max_vocab_size, min_frequency)
        super().__init__(
            os.fspath(root),
            transform,
            pre_transform,
            pre_filter,
            log=log,
            force_reload=force_reload,
        )
        self.load(self.processed_paths[0])

    @abstractmethod
    def documents(self) -> Sequence[LabelledText]:
        """Read all documents from the raw files, in the order of the data set."""

    @property
    def variant(self) -> str:
        """What tells the raw data from other raw data under the same root."""
        return ""

    @property
    def processed_file_names(self) -> list[str]:
        """Signals, tokenizer, report; each combination of settings has its own."""
        words = "_".join(filter(None, (self.variant, self._tokenizer_key)))
        kept = "all" if self.max_tokens is None else self.max_tokens
        key = f"{self.split or 'whole'}_{words}_tokens{kept}"
        key += "_text" if self.keep_text else ""
        return [f"texts_{key}.pt", f"tokenizer_{words}.json", f"report_{key}.json"]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def process(self) -> None:
        """Tokenize the documents of the split and store their signals."""
        report: Counter[str] = Counter()
        documents = self.documents()
        tokenizer = self._fit_tokenizer(
            document.text for document in documents if document.split == "train"
        )
        wanted = [
            document for document in documents if self.split in (None, document.split)
        ]
        signals = self._convert(wanted, tokenizer, report)
        report.update(self._left_out())
        report = +report
        if not signals:
            raise ValueError(
                f"{self._described()} has no document: its raw files have none"
                + (f" ({describe(report)})." if report else ".")
            )
        # The signals last: they are what a later run looks for.
        self._keep(tokenizer, report)
        self.save(signals, self.processed_paths[0])

    def _convert(
        self, documents: Sequence[LabelledText], tokenizer: Any, report: Counter[str]
    ) -> list[NestedSignal]:
        convert = self._converter(tokenizer, report)
        signals = []
        for document in tqdm(
            documents, desc=f"Converting {self._described()}", disable=not self.log
        ):
            try:
                signal = convert(document)
            except EmptyDocumentError:
                report[self.empty] += 1
                continue
            for name, value in document.attributes.items():
                signal[name] = value
            if self.pre_filter is not None and not self.pre_filter(signal):
                report[f"{self.unit} that pre_filter refused"] += 1
                continue
            if self.pre_transform is not None:
                signal = self.pre_transform(signal)
            signals.append(signal)
        return signals

    def _converter(
        self, tokenizer: Any, report: Counter[str]
    ) -> Callable[[Any], NestedSignal]:
        """What turns a document into a signal; counts in ``report`` what it leaves."""
        convert = DocumentConverter(
            tokenizer,
            sentences=self.sentences,
            max_tokens=self.max_tokens,
            keep_text=self.keep_text,
            images=False,
        )
        return lambda document: convert.text(
            document.text, document.name, y=document.label
        )

    def _described(self) -> str:
        return type(self).__name__ + (f" ({self.split})" if self.split else "")

    def _left_out(self) -> Mapping[str, int]:
        """What :meth:`documents` did not give; known once it was called."""
        return {}

    @property
    def sources(self) -> list[str]:
        """Name of each document in this data set."""
        names = self._data.source
        # A data set of one signal is stored as it is, without a list.
        names = [names] if isinstance(names, str) else names
        return [names[index] for index in self.indices()]

    def text(self, index: int) -> str:
        """Return the text of a document, which its spans point into.

        Reads the raw files, unless the texts are kept in the signals. To have all of
        them, :meth:`raw_texts` is faster.

        Args:
            index: Place of the document in this data set.
        """
        name = self.sources[index]
        if self.keep_text:
            signal = self.get(self.indices()[index])
            return signal["document"].text[0]
        return self._read_text(name)

    def _read_text(self, name: str) -> str:
        for document in self.documents():
            if document.name == name:
                return document.text
        raise ValueError(
            f"The raw files in {self.raw_dir!r} have no document {name!r} any more: "
            "pass force_reload=True to process what is there now."
        )

    def raw_texts(self) -> RawTexts:
        """Read the texts and labels of this data set, for baselines.

        .. code-block:: python

            texts, labels = MovieReviews(root, "train").raw_texts()
        """
        documents = {document.name: document for document in self.documents()}
        chosen = [documents[name] for name in self.sources]
        return RawTexts(
            [document.text for document in chosen],
            torch.tensor([document.label for document in chosen], dtype=torch.long),
        )
