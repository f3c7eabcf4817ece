"""Data sets: PyG data sets whose samples are :class:`~hsa_pyg.NestedSignal`."""

from hsa_pyg.datasets.elec import Elec
from hsa_pyg.datasets.emoji import EmojiMultimodal
from hsa_pyg.datasets.fake import FakeNestedDataset
from hsa_pyg.datasets.formal_language import FormalLanguage
from hsa_pyg.datasets.imdb import IMDB
from hsa_pyg.datasets.item_dataset import Item, ItemDataset
from hsa_pyg.datasets.list_ops import ListOps
from hsa_pyg.datasets.molecule_net import MoleculeNetTrees
from hsa_pyg.datasets.movie_reviews import MovieReviews
from hsa_pyg.datasets.n24news import N24News
from hsa_pyg.datasets.ogb import OGBGraphs, OGBNodes
from hsa_pyg.datasets.openclipart import OpenClipart
from hsa_pyg.datasets.shakespeare import Shakespeare
from hsa_pyg.datasets.sqlite_site import SqliteSite
from hsa_pyg.datasets.sst_trees import SSTTrees
from hsa_pyg.datasets.text_dataset import LabelledText, RawTexts, TextDataset
from hsa_pyg.datasets.website_pages import WebsitePages

__all__ = [
    "IMDB",
    "Elec",
    "EmojiMultimodal",
    "FakeNestedDataset",
    "FormalLanguage",
    "Item",
    "ItemDataset",
    "LabelledText",
    "ListOps",
    "MoleculeNetTrees",
    "MovieReviews",
    "N24News",
    "OGBGraphs",
    "OGBNodes",
    "OpenClipart",
    "RawTexts",
    "SSTTrees",
    "Shakespeare",
    "SqliteSite",
    "TextDataset",
    "WebsitePages",
]
