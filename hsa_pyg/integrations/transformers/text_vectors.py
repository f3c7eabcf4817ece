"""Fixed vectors of texts by a pretrained encoder, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from hsa_pyg.integrations.transformers.comparison import evaluating
from hsa_pyg.integrations.transformers.positions import text_positions
from hsa_pyg.integrations.transformers.replace import replaced_layers

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
        ValueError: if it knows no words, or ``max_length`` leaves room for none.
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
        check_fast(tokenizer)
        check_vocabulary(tokenizer)
        least = tokenizer.num_special_tokens_to_add() + 1
        if max_length is not None and max_length < least:
            raise ValueError(
                f"max_length must be {least} or more, as {least - 1} special tokens "
                f"stand around each text, got {max_length}"
            )
        known = (max_length, text_positions(model), tokenizer.model_max_length)
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
        self._fingerprint: tuple[Any, str] | None = None

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

    @property
    def fingerprint(self) -> str:
        """What tells this model, tokenizer and settings from others."""
        # Weights that are trained in place have other versions afterwards.
        weights = self.model.state_dict(keep_vars=True)
        versions = [(name, w.data_ptr(), _version(w)) for name, w in weights.items()]
        settings = (self._sides(), self.max_length, self.normalize, self.autocast)
        state = (versions, settings)
        if self._fingerprint is None or self._fingerprint[0] != state:
            self._fingerprint = (state, self._digest())
        return self._fingerprint[1]

    def _sides(self) -> list[str]:
        """Where the tokenizer cuts, and pads by itself, if not on the right."""
        names = ("truncation_side", "padding_side")
        sides = {name: getattr(self.tokenizer, name, "right") for name in names}
        return [f"{name}={side}" for name, side in sides.items() if side != "right"]

    def _digest(self) -> str:
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
        settings = [self.normalize, self.max_length, str(self.autocast), *self._sides()]
        digest.update(json.dumps(settings).encode())
        return digest.hexdigest()

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """The vectors of texts, [n, channels] float16; zeros for those without tokens.

        Raises:
            TypeError: if ``texts`` is a single string, or holds something else.
            ValueError: if a text is no Unicode, if vectors of a model with replaced
                attention would be kept, or those that are kept cannot be read.
        """
        texts = _checked(texts)
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
                    rows[part] = _load(file, (len(part), self.channels))
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
        if layers := replaced_layers(self.model):
            raise ValueError(
                f"the layers {layers} of {type(self.model).__name__} are replaced, and "
                "the cache does not tell their trees apart; pass cache=None, or call "
                "restore_attention(model)"
            )
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
                # Padding before a text would shift its positions.
                padding_side="right",
                truncation=True,
                max_length=self.max_length,
                return_tensors="pt",
            ).to(self.device)
            precision = torch.autocast(self.device.type, low) if low else nullcontext()
            with evaluating(model), precision:
                states = model(**encoded).last_hidden_state
            mask = encoded["attention_mask"][..., None]
            mean = (states.float() * mask).sum(1) / mask.sum(1).clamp(min=1)
            if self.normalize:
                mean = torch.nn.functional.normalize(mean, dim=-1)
            out.append(mean.half().cpu().numpy())
            progress.update(stop - start)
            start = stop
        return np.concatenate(out)


def check_fast(tokenizer: Any) -> None:
    """Raise a TypeError if a tokenizer is a slow one, which knows no words' places."""
    if not getattr(tokenizer, "is_fast", False):
        raise TypeError(
            f"{type(tokenizer).__name__} is no fast tokenizer: load it with "
            "AutoTokenizer.from_pretrained(..., use_fast=True)"
        )


def check_vocabulary(tokenizer: Any) -> None:
    """Raise a ValueError if a tokenizer knows nothing but special tokens.

    That is what transformers makes of a folder with a model and no tokenizer.
    """
    words = set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    if not words:
        raise ValueError(
            f"{type(tokenizer).__name__} knows no words, only special tokens: the "
            "files of the tokenizer are missing beside those of the model; save them "
            "there by tokenizer.save_pretrained(folder)"
        )


def _checked(texts: Sequence[str]) -> list[str]:
    """The texts as a list."""
    if isinstance(texts, str):
        raise TypeError("give a list of texts, not a single one")
    listed = list(texts)
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(f"text {place} is no string but {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {place} is no valid Unicode ({error}); clean it, as by "
                "text.encode('utf-8', 'replace').decode()"
            ) from error
    return listed


def _version(weight: Tensor) -> int:
    """How often a tensor was changed in place."""
    return -1 if weight.is_inference() else weight._version


def _load(path: Path, shape: tuple[int, int]) -> np.ndarray:
    try:
        rows = np.load(path)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); delete it") from error
    if rows.shape != shape:
        raise ValueError(f"{path} has shape {rows.shape}, not {shape}; delete it")
    return rows


def _save_whole(path: Path, rows: np.ndarray) -> None:
    """Write an array so that its file is never there in part."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.save(file, rows)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
