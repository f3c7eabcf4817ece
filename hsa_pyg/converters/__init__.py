"""Converters: raw objects to :class:`~hsa_pyg.NestedSignal`."""

from hsa_pyg.converters.atom_groups import GROUP_ROLES
from hsa_pyg.converters.blocks import ROLES
from hsa_pyg.converters.brackets import collect_labels, from_brackets, to_brackets
from hsa_pyg.converters.concatenation import concat
from hsa_pyg.converters.document import (
    DocumentConverter,
    EmptyDocumentError,
    from_document,
    from_html,
)
from hsa_pyg.converters.folder import from_documents
from hsa_pyg.converters.graph import from_graph
from hsa_pyg.converters.image import from_image, image_schema, to_image
from hsa_pyg.converters.image_folder import from_images
from hsa_pyg.converters.images import BadImageError, Patches, PictureReader
from hsa_pyg.converters.molecule import ATOM_SIZES, from_molecule, from_smiles
from hsa_pyg.converters.nested import from_nested
from hsa_pyg.converters.networkx_tree import from_networkx
from hsa_pyg.converters.newick import from_newick, from_newick_file
from hsa_pyg.converters.reading import read_text
from hsa_pyg.converters.to_hierarchy import ToHierarchy
from hsa_pyg.converters.tokenization import (
    Characters,
    EncodedText,
    HashedWords,
    TextEncoder,
    train_word_tokenizer,
)
from hsa_pyg.converters.trees import Vocabulary
from hsa_pyg.converters.website import Website, from_website

__all__ = [
    "ATOM_SIZES",
    "GROUP_ROLES",
    "ROLES",
    "BadImageError",
    "Characters",
    "DocumentConverter",
    "EmptyDocumentError",
    "EncodedText",
    "HashedWords",
    "Patches",
    "PictureReader",
    "TextEncoder",
    "ToHierarchy",
    "Vocabulary",
    "Website",
    "collect_labels",
    "concat",
    "from_brackets",
    "from_document",
    "from_documents",
    "from_graph",
    "from_html",
    "from_image",
    "from_images",
    "from_molecule",
    "from_nested",
    "from_networkx",
    "from_newick",
    "from_newick_file",
    "from_smiles",
    "from_website",
    "image_schema",
    "read_text",
    "to_brackets",
    "to_image",
    "train_word_tokenizer",
]
