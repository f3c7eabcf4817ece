"""Tokenizers: what the converters ask of one, and the ones that come with them."""

from __future__ import annotations

import reprlib
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.normalizers import Normalizer
    from tokenizers.pre_tokenizers import PreTokenizer

PAD_TOKEN = "[PAD]"
UNKNOWN_TOKEN = "[UNK]"


class EncodedText(NamedTuple):
    """Tokens of one text.

    Args:
        ids: Token ids.
        spans: ``(start, stop)`` character offsets of each token in the text.
    """

    ids: Sequence[int]
    spans: Sequence[tuple[int, int]]


@runtime_checkable
class TextEncoder(Protocol):
    """What the converters need of a tokenizer: a call on a list of texts.

    Any callable of this signature will do. :func:`as_text_encoder` makes one of a
    ``tokenizers.Tokenizer`` or of a fast tokenizer of Hugging Face transformers.
    """

    def __call__(self, texts: Sequence[str], /) -> Sequence[EncodedText]:
        """Encode each text, without special tokens, truncation or padding."""
        ...


def as_text_encoder(tokenizer: Any) -> TextEncoder:
    """Return the encoder that a converter's ``tokenizer`` argument stands for.

    Truncation, padding and special tokens of the given tokenizer are left out: the
    tree holds every token of the document and needs neither padding nor separators.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``, a fast tokenizer of transformers, a
            :class:`TextEncoder`, ``"characters"`` for :class:`Characters`, or None for
            :class:`HashedWords`.

    Raises:
        TypeError: If it is none of these, or a slow tokenizer of transformers, which
            cannot tell where in the text a token stands.
    """
    if tokenizer is None:
        return HashedWords()
    if isinstance(tokenizer, str) and tokenizer == "characters":
        return Characters()
    # transformers' tokenizers are callable too, so they are told apart first.
    if hasattr(tokenizer, "backend_tokenizer") or hasattr(tokenizer, "is_fast"):
        if not getattr(tokenizer, "is_fast", False):
            raise TypeError(
                f"{type(tokenizer).__name__} is a slow tokenizer, which gives no "
                "character offsets: load it with AutoTokenizer.from_pretrained(..., "
                "use_fast=True)."
            )
        return _BackendEncoder(tokenizer.backend_tokenizer)
    if hasattr(tokenizer, "encode_batch"):
        return _BackendEncoder(tokenizer)
    if callable(tokenizer):
        return tokenizer
    raise TypeError(
        f"tokenizer is a {type(tokenizer).__name__}: pass a tokenizers.Tokenizer, a "
        "fast tokenizer of transformers, 'characters', or a callable from a list of "
        "texts to a list of EncodedText(ids, spans)."
    )


def encode_all(encode: TextEncoder, texts: Sequence[str]) -> list[EncodedText]:
    """Call a tokenizer on texts, and check that each result is ids and spans.

    Args:
        encode: The tokenizer.
        texts: The texts.

    Raises:
        TypeError: If it takes no list of texts, or gives something else.
    """
    wanted = (
        "a tokenizer maps a list of texts to EncodedText(ids, spans) for each: token "
        "ids, and the (start, stop) offsets of each token"
    )
    try:
        encoded = list(encode(texts))
    except (TypeError, AttributeError) as error:
        raise TypeError(
            f"The tokenizer failed on a list of texts ({error}): {wanted}."
        ) from error
    for text, found in zip(texts, encoded, strict=False):
        try:
            ids, spans = found
            right = not isinstance(ids, str) and len(ids) + len(spans) >= 0
            for _start, _stop in spans:
                pass
        except (TypeError, ValueError):
            right = False
        if not right:
            raise TypeError(
                f"The tokenizer gave {reprlib.repr(found)} for the text "
                f"{reprlib.repr(text)}: {wanted}."
            )
    return encoded


class _BackendEncoder:
    """Encodes with a ``tokenizers.Tokenizer``."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.truncation is not None or tokenizer.padding is not None:
            # A copy: the caller's tokenizer keeps its settings.
            tokenizer = type(tokenizer).from_str(tokenizer.to_str())
            tokenizer.no_truncation()
            tokenizer.no_padding()
        self.tokenizer = tokenizer

    def __call__(self, texts: Sequence[str], /) -> list[EncodedText]:
        # One by one rather than encode_batch: sentences are short, and a process that
        # has used its thread pool warns whenever a DataLoader forks a worker.
        encodings = (
            self.tokenizer.encode(text, add_special_tokens=False) for text in texts
        )
        return [EncodedText(found.ids, found.offsets) for found in encodings]


class HashedWords:
    """Words and punctuation marks, each with an id that is a hash of its letters.

    Needs no vocabulary and no training, so a word has one id in every document and
    every run, at the price of words that share an id (the hashing trick: Weinberger
    et al., "Feature Hashing for Large Scale Multitask Learning", ICML 2009,
    https://doi.org/10.1145/1553374.1553516). To have ids without collisions, train a
    vocabulary with :func:`train_word_tokenizer`.

    Args:
        vocab_size: Number of ids; ids are ``0 .. vocab_size - 1``.

    Raises:
        ValueError: If ``vocab_size`` is not positive.
        ImportError: If tokenizers is not installed.

    Example:
        >>> (encoded,) = HashedWords()(["Good, good!"])
        >>> encoded.spans
        [(0, 4), (4, 5), (6, 10), (10, 11)]
        >>> encoded.ids[0] == encoded.ids[2]
        True
    """

    def __init__(self, vocab_size: int = 32_768) -> None:
        if vocab_size < 1:
            raise ValueError(f"vocab_size must be positive, but is {vocab_size}.")
        self.vocab_size = vocab_size
        self._normalizer, self._pre_tokenizer = _word_rules()

    def __call__(self, texts: Sequence[str], /) -> list[EncodedText]:
        """Encode each text."""
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> EncodedText:
        from tokenizers import PreTokenizedString

        words = PreTokenizedString(text)
        words.normalize(self._normalizer.normalize)
        self._pre_tokenizer.pre_tokenize(words)
        splits = words.get_splits(offset_referential="original", offset_type="char")
        # crc32, since Python's own hash differs from process to process.
        ids = [zlib.crc32(word.encode()) % self.vocab_size for word, _, _ in splits]
        return EncodedText(ids, [span for _, span, _ in splits])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"


class Characters:
    """One token a character, white space included.

    The characters of ASCII and Latin-1 have their code points for ids; all others share
    the ids from 256 on by a hash, as the words of :class:`HashedWords` do.

    Args:
        vocab_size: Number of ids; ids are ``0 .. vocab_size - 1``.

    Raises:
        ValueError: If ``vocab_size`` is not greater than 256.

    Example:
        >>> Characters()(["Hi!"])
        [EncodedText(ids=[72, 105, 33], spans=[(0, 1), (1, 2), (2, 3)])]
    """

    def __init__(self, vocab_size: int = 4_096) -> None:
        if vocab_size <= 256:
            raise ValueError(
                f"vocab_size must be greater than 256, but is {vocab_size}."
            )
        self.vocab_size = vocab_size

    def __call__(self, texts: Sequence[str], /) -> list[EncodedText]:
        """Encode each text."""
        return [
            EncodedText(
                [self._id(character) for character in text],
                [(place, place + 1) for place in range(len(text))],
            )
            for text in texts
        ]

    def _id(self, character: str) -> int:
        code = ord(character)
        if code < 256:
            return code
        return 256 + zlib.crc32(character.encode()) % (self.vocab_size - 256)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"


def train_word_tokenizer(
    texts: Iterable[str], *, vocab_size: int = 20_000, min_frequency: int = 2
) -> Tokenizer:
    """Train a vocabulary of words and punctuation marks, without regard to case.

    Id 0 is ``[PAD]`` and id 1 is ``[UNK]``, which stands for every word that is not in
    the vocabulary. Save the result with ``tokenizer.save("tokenizer.json")``.

    Args:
        texts: Texts to count words in: those of the training split alone.
        vocab_size: Largest number of ids; the most frequent words are kept.
        min_frequency: Words seen less often are left out.

    Raises:
        ValueError: If ``vocab_size`` leaves no room for ``[PAD]`` and ``[UNK]``.
        ImportError: If tokenizers is not installed.

    Example:
        >>> tokenizer = train_word_tokenizer(["The film. The end."])
        >>> tokenizer.encode("the film .").ids
        [3, 1, 2]
    """
    if vocab_size < 2:
        raise ValueError(
            f"vocab_size must be at least 2, for {PAD_TOKEN} and {UNKNOWN_TOKEN}, but "
            f"is {vocab_size}."
        )
    normalizer, pre_tokenizer = _word_rules()
    from tokenizers import Tokenizer, models, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN_TOKEN))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[PAD_TOKEN, UNKNOWN_TOKEN],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _word_rules() -> tuple[Normalizer, PreTokenizer]:
    """BERT's rules for words: split at white space, marks and Chinese characters.

    Accents and control characters stay, so that no visible character is lost.
    """
    try:
        from tokenizers import normalizers, pre_tokenizers
    except ImportError as error:
        raise ImportError(
            'Tokenizing text needs tokenizers: pip install "hsa-pyg[text]", which html '
            "and epub include."
        ) from error
    normalizer = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=True
    )
    return normalizer, pre_tokenizers.BertPreTokenizer()
