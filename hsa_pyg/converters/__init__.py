"""Converters: raw objects to :class:`~hsa_pyg.NestedSignal`."""

from hsa_pyg.converters.document import (
    DocumentConverter,
    EmptyDocumentError,
    from_document,
    read_text,
)
from hsa_pyg.converters.folder import from_documents
from hsa_pyg.converters.tokenization import (
    EncodedText,
    HashedWords,
    TextEncoder,
    train_word_tokenizer,
)

__all__ = [
    "DocumentConverter",
    "EmptyDocumentError",
    "EncodedText",
    "HashedWords",
    "TextEncoder",
    "from_document",
    "from_documents",
    "read_text",
    "train_word_tokenizer",
]
