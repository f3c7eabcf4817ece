"""Fixed vectors of texts by a pretrained encoder, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

#: Texts of a file of the cache: what is computed again after an interruption, at most.
_PART = 2048


class TextVectors:
    r"""Maps texts to the mean of a pretrained encoder's last hidden states.

    Texts are sorted by length and put into batches of like ones. With ``cache`` the
    vectors are kept in a folder that is named after the model, its tokenizer, the
    settings and the texts; what an interrupted call has finished is not computed again.

    Args:
        model: An encoder of transformers, such as ``AutoModel`` loads.
        tokenizer: Its fast tokenizer.
        cache: Folder to keep vectors in; None to keep none.
        normalize: Whether vectors are scaled to length 1.
        max_length: Tokens of a text that are read, at most; by default as many as model
            and tokenizer allow. Longer texts are counted in :attr:`report`.
        batch_tokens: Tokens of a batch, padding included. By default 512 on a CPU,
            whose caches they fit, and 32,768 elsewhere.
        device: Where to compute; by default where the model is.
        autocast: A dtype to compute in, such as ``torch.bfloat16``.
        log: Show a progress bar, and tell of texts that were cut.

    Raises:
        TypeError: if the tokenizer is a slow one.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        cache: str | os.PathLike[str] | None = None,
        *,
        normalize: bool = False,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        device: torch.device | str | None = None,
        autocast: torch.dtype | None = None,
        log: bool = True,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise TypeError(
                f"{type(tokenizer).__name__} is no fast tokenizer: load it with "
                "AutoTokenizer.from_pretrained(..., use_fast=True)"
            )
        positions = getattr(model.config, "max_position_embeddings", None)
        known = (max_length, positions, tokenizer.model_max_length)
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.cache = None if cache is None else Path(cache)
        self.normalize = normalize
        self.max_length = min(limit for limit in known if limit is not None)
        self.device = model.device if device is None else torch.device(device)
        few = 512 if self.device.type == "cpu" else 32_768
        self.batch_tokens = few if batch_tokens is None else batch_tokens
        self.autocast = autocast
        self.log = log
        #: What was cut, and how often, since this was made.
        self.report: Counter[str] = Counter()

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        cache: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> TextVectors:
        """Load model and tokenizer from a folder; nothing is fetched from a network.

        Args:
            folder: A folder in the form of ``save_pretrained``.
            cache: Folder to keep vectors in; None to keep none.
            **kwargs: Further arguments of the class.

        Raises:
            ImportError: if transformers is not installed.
            FileNotFoundError: if there is no such folder.
        """
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise ImportError(
                "Pretrained encoders need transformers: pip install "
                '"hsa-pyg[transformers]".'
            ) from error
        if not Path(folder).is_dir():
            raise FileNotFoundError(f"there is no folder {os.fspath(folder)!r}")
        model = AutoModel.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return cls(model, tokenizer, cache, **kwargs)

    @property
    def channels(self) -> int:
        """Size of a vector."""
        return self.model.config.hidden_size

    @cached_property
    def fingerprint(self) -> str:
        """What tells this model, tokenizer and settings from others."""
        config = self.model.config.to_dict()
        # Neither a version nor a place tells of the weights.
        for name in ("transformers_version", "_name_or_path"):
            config.pop(name, None)
        told = json.dumps(config, sort_keys=True, default=str)
        digest = hashlib.sha256(told.encode())
        for name, weight in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            flat = weight.detach().cpu().contiguous().view(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes())
        words = json.loads(self.tokenizer.backend_tokenizer.to_str())
        # Every call sets these two.
        words = {k: v for k, v in words.items() if k not in ("truncation", "padding")}
        digest.update(json.dumps(words, sort_keys=True).encode())
        settings = [self.normalize, self.max_length, str(self.autocast)]
        digest.update(json.dumps(settings).encode())
        return digest.hexdigest()

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """The vectors of texts, [n, channels] float16; zeros for those without tokens.

        Raises:
            TypeError: if ``texts`` is a single string.
        """
        if isinstance(texts, str):
            raise TypeError("give a list of texts, not a single one")
        unique = list(dict.fromkeys(texts))
        if not unique:
            return torch.zeros(0, self.channels, dtype=torch.float16)
        lengths = self._lengths(unique)
        order = sorted(range(len(unique)), key=lambda i: (lengths[i], i))
        parts = [order[i : i + _PART] for i in range(0, len(order), _PART)]
        folder = self._folder(unique)
        rows = np.empty((len(unique), self.channels), dtype=np.float16)
        with tqdm(
            total=len(unique), desc="Encoding texts", unit="texts", disable=not self.log
        ) as progress:
            for number, part in enumerate(parts):
                file = None if folder is None else folder / f"part_{number:05d}.npy"
                if file is not None and file.exists():
                    rows[part] = np.load(file)
                    progress.update(len(part))
                    continue
                rows[part] = self._encode(unique, part, lengths, progress)
                if file is not None:
                    _save_whole(file, rows[part])
        place = {text: i for i, text in enumerate(unique)}
        found = torch.tensor([place[text] for text in texts], dtype=torch.long)
        return torch.from_numpy(rows)[found]

    def _lengths(self, texts: list[str]) -> list[int]:
        """Tokens of each text that are read."""
        lengths: list[int] = []
        for start in range(0, len(texts), 10_000):
            encoded = self.tokenizer(texts[start : start + 10_000], verbose=False)
            lengths += map(len, encoded["input_ids"])
        cut = sum(length > self.max_length for length in lengths)
        if cut:
            self.report[f"texts cut after {self.max_length} tokens"] += cut
            if self.log:
                print(
                    f"{cut} of {len(texts)} texts were cut after {self.max_length} "
                    "tokens.",
                    file=sys.stderr,
                )
        return [min(length, self.max_length) for length in lengths]

    def _folder(self, texts: list[str]) -> Path | None:
        """The folder of these texts in the cache."""
        if self.cache is None:
            return None
        digest = hashlib.sha256(self.fingerprint.encode())
        for text in texts:
            # The length tells where a text ends.
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        folder = self.cache / digest.hexdigest()[:32]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @torch.inference_mode()
    def _encode(
        self, texts: list[str], part: list[int], lengths: list[int], progress: Any
    ) -> np.ndarray:
        """The vectors of some texts, which are sorted by length."""
        model = self.model.to(self.device)
        low = self.autocast
        # Without special tokens, a text may have nothing to take the mean of.
        start = sum(lengths[i] == 0 for i in part)
        out = [np.zeros((start, self.channels), dtype=np.float16)]
        progress.update(start)
        while start < len(part):
            stop = start + 1
            # The last one is the longest.
            while (
                stop < len(part)
                and (stop + 1 - start) * lengths[part[stop]] <= self.batch_tokens
            ):
                stop += 1
            encoded = self.tokenizer(
                [texts[i] for i in part[start:stop]],
                padding=True,
                truncation=True,
                max_length=self.max_length,
                return_tensors="pt",
            ).to(self.device)
            with torch.autocast(self.device.type, low) if low else nullcontext():
                states = model(**encoded).last_hidden_state
            mask = encoded["attention_mask"][..., None]
            mean = (states.float() * mask).sum(1) / mask.sum(1).clamp(min=1)
            if self.normalize:
                mean = torch.nn.functional.normalize(mean, dim=-1)
            out.append(mean.half().cpu().numpy())
            progress.update(stop - start)
            start = stop
        return np.concatenate(out)


def _save_whole(path: Path, rows: np.ndarray) -> None:
    """Write an array so that its file is never there in part."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.save(file, rows)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
