"""Converters: raw objects to :class:`~hsa_pyg.NestedSignal`."""

from hsa_pyg.converters.document import (
    DocumentConverter,
    EmptyDocumentError,
    from_document,
    read_text,
)
from hsa_pyg.converters.folder import from_documents
from hsa_pyg.converters.image import from_image, image_schema, to_image
from hsa_pyg.converters.image_folder import from_images
from hsa_pyg.converters.images import BadImageError, Patches, PictureReader
from hsa_pyg.converters.tokenization import (
    EncodedText,
    HashedWords,
    TextEncoder,
    train_word_tokenizer,
)

__all__ = [
    "BadImageError",
    "DocumentConverter",
    "EmptyDocumentError",
    "EncodedText",
    "HashedWords",
    "Patches",
    "PictureReader",
    "TextEncoder",
    "from_document",
    "from_documents",
    "from_image",
    "from_images",
    "image_schema",
    "read_text",
    "to_image",
    "train_word_tokenizer",
]
