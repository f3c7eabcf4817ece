"""Fixed features of a pretrained encoder for the leaves of a data set."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from hsa_pyg.hierarchy import CHILD_OF
from hsa_pyg.integrations.transformers.text_vectors import TextVectors
from hsa_pyg.nn.word_vectors import WordVectorEmbedding


def token_vectors(
    model: Any, channels: int, *, trainable: bool = False
) -> WordVectorEmbedding:
    r"""A pretrained encoder's input embeddings as word vectors for leaves.

    The token ids must be those of the model's own tokenizer: give it to the data set,
    ``MovieReviews(root, tokenizer=tokenizer)``, and this to the leaf encoder,
    ``LeafEncoder(channels, modules={"token": token_vectors(model, channels)})``.

    Args:
        model: A model of transformers.
        channels: Size of the leaf vectors.
        trainable: Whether the table is trained.

    Raises:
        TypeError: If the model has no table of input embeddings.
    """
    inputs = getattr(model, "get_input_embeddings", lambda: None)()
    if not isinstance(inputs, torch.nn.Embedding):
        raise TypeError(
            f"{type(model).__name__} has no table of token embeddings; give a text "
            "encoder of transformers"
        )
    table = inputs.weight.detach()
    return WordVectorEmbedding(table.cpu(), channels, trainable=trainable)


class SentenceFeatures:
    r"""Makes the sentences of signals their leaves, each with one vector.

    A review > paragraph > sentence > token becomes a review > paragraph > sentence with
    ``sentence.x`` ``[num_sentences, channels]``; the tokens and all their edges are
    gone. The text of a sentence ends with its last token, so a signal of the first
    ``max_tokens`` tokens has the vectors of no more.

    Call :meth:`signals` on a data set, which encodes the sentences of all signals at
    once; a single signal can be called with, as ``pre_transform`` does, if it keeps its
    text. All signals of a data set have the same types and attributes, as before.

    Args:
        vectors: From texts to their vectors.
        sentence: The type that becomes a leaf type.
        token: The leaf type that goes.
        dtype: Of the vectors in the signals. The cache keeps float16.

    .. code-block:: python

        vectors = TextVectors.from_pretrained("all-MiniLM-L6-v2", cache="vectors")
        train = SentenceFeatures(vectors).signals(MovieReviews(root, "train"))
    """

    def __init__(
        self,
        vectors: TextVectors,
        *,
        sentence: str = "sentence",
        token: str = "token",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.vectors = vectors
        self.sentence = sentence
        self.token = token
        self.dtype = dtype

    def __call__(self, signal: HeteroData) -> HeteroData:
        """One signal with the vectors of its sentences; it must keep its text.

        Raises:
            ValueError: as :meth:`signals`.
        """
        return self.signals([signal])[0]

    def signals(
        self, signals: Iterable[HeteroData], texts: Sequence[str] | None = None
    ) -> list[HeteroData]:
        """New signals, with the vectors of their sentences.

        Args:
            signals: Signals, or a data set of them.
            texts: The text of each, which its spans count in. By default what the
                signals keep (``document.text``), or else the data set's
                ``raw_texts()``.

        Raises:
            ValueError: if a signal has no sentences' spans or keeps no text, has tokens
                elsewhere than in sentences or something else in sentences, or there is
                not a text per signal.
        """
        if texts is None and hasattr(signals, "raw_texts"):
            texts = signals.raw_texts().texts
        listed = list(signals)
        if texts is not None and len(texts) != len(listed):
            raise ValueError(
                f"{len(listed)} signals have {len(texts)} texts; give one for each"
            )
        sentences = [
            self.sentences(signal, None if texts is None else texts[i])
            for i, signal in enumerate(listed)
        ]
        rows = self.vectors([text for found in sentences for text in found])
        parts = rows.split([len(found) for found in sentences])
        return [
            self._with_leaves(signal, x)
            for signal, x in zip(listed, parts, strict=True)
        ]

    def sentences(self, signal: HeteroData, text: str | None = None) -> list[str]:
        """The text of each sentence of a signal, up to its last token.

        Args:
            signal: The signal.
            text: The text that the spans count in, unless the signal keeps it.
        """
        self._check(signal)
        span = signal[self.sentence].span
        stop = span[:, 1].clone()
        edge = self._edges(signal)
        if edge.size(1):
            last = torch.zeros_like(stop)
            token_stop = signal[self.token].span[:, 1]
            last.scatter_reduce_(0, edge[1], token_stop[edge[0]], "amax")
            stop = torch.where(last > 0, last, stop)
        spans = torch.stack([span[:, 0], stop], dim=1).tolist()
        if text is not None:
            return [text[a:b] for a, b in spans]
        kept = self._kept_texts(signal)
        return [text[a:b] for text, (a, b) in zip(kept, spans, strict=True)]

    def _kept_texts(self, signal: HeteroData) -> list[str]:
        """The text around each sentence, which a node above it keeps."""
        slices = signal.hierarchy.node_slices
        texts: dict[int, str] = {}
        for kind, store in signal.node_items():
            for place, text in enumerate(store.get("text") or ()):
                texts[slices[kind][0] + place] = text
        parent = signal.hierarchy.parent
        found = []
        for node in range(*slices[self.sentence]):
            while node >= 0 and node not in texts:
                node = int(parent[node])
            if node < 0:
                raise ValueError(
                    "no node above the sentences keeps their text: make the data set "
                    "with keep_text=True, or pass texts="
                )
            found.append(texts[node])
        return found

    def _edges(self, signal: HeteroData) -> Tensor:
        kind = (self.token, CHILD_OF, self.sentence)
        if kind not in signal.edge_types:
            return torch.zeros(2, 0, dtype=torch.long)
        return signal[kind].edge_index

    def _check(self, signal: HeteroData) -> None:
        for kind in (self.sentence, self.token):
            if kind not in signal.node_types or "span" not in signal[kind]:
                raise ValueError(
                    f"the signal has no type {kind!r} with spans, but its types are "
                    f"{signal.node_types}; name those of sentences and tokens"
                )
        for kind in signal.edge_types:
            child, relation, parent = kind
            if relation != CHILD_OF or signal[kind].edge_index.size(1) == 0:
                continue
            if (child == self.token) != (parent == self.sentence):
                raise ValueError(
                    f"edges {kind} join {child!r} to {parent!r}, but nodes of type "
                    f"{self.token!r} alone may be in those of type {self.sentence!r}, "
                    "and nowhere else: there would be no vector for them"
                )

    def _with_leaves(self, signal: HeteroData, x: Tensor) -> HeteroData:
        out = copy.copy(signal)
        for kind in signal.edge_types:
            if self.token in (kind[0], kind[2]):
                del out[kind]
        del out[self.token]
        store = out[self.sentence]
        if "num_nodes" in store:
            del store["num_nodes"]
        # A copy, so that a signal does not keep the vectors of all others alive.
        store.x = x.to(self.dtype, copy=True)
        return out
