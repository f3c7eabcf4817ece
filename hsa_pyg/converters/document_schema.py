"""Node types and attributes of the signals that documents and pages become."""

from __future__ import annotations

from typing import Literal

import torch

from hsa_pyg.data import Feature, Schema
from hsa_pyg.hierarchy import CHILD_OF

_SPAN = {"span": Feature((2,), torch.long)}
_CHILD = {**_SPAN, "pos": Feature((1,), torch.float)}
_ID = Feature((), torch.long)
_TEXTS = Feature(None, "list")

IMAGE_SIZES = {
    "size": Feature((2,), torch.long),
    "scaled": Feature((2,), torch.long),
    "patch_shape": Feature((3,), torch.long),
}
"""Of a picture: the original's height and width, those of what the patches show, and
the channels, height and width of a patch."""

SHOWS = "shows"
"""Edges of this name lead from every figure to the picture in it."""

LINKS_TO = "links_to"
"""Edges of this name lead from a page to another, ``count`` links at a time."""


def text_schema(keep_text: bool = True) -> Schema:
    """Schema of plain texts: document > paragraph > sentence > token.

    Args:
        keep_text: Whether ``document.text`` holds the text itself.
    """
    return Schema(
        nodes={
            "document": {**_SPAN, **({"text": _TEXTS} if keep_text else {})},
            "paragraph": {**_CHILD, "role": _ID},
            "sentence": _CHILD,
            "token": {**_CHILD, "x": _ID},
        },
        edges=[
            ("paragraph", CHILD_OF, "document"),
            ("sentence", CHILD_OF, "paragraph"),
            ("token", CHILD_OF, "sentence"),
        ],
    )


def document_schema(
    *,
    root: Literal["document", "page"] = "document",
    patch_width: int | None = None,
    tree: Literal["grid", "quadtree"] = "grid",
    website: bool = False,
    keep_text: bool = True,
) -> Schema:
    """Schema of documents with sections, lists, tables and pictures.

    It holds all of :func:`text_schema`, so that plain texts can be unified with it.

    Args:
        root: Type of a document's root.
        patch_width: Features of a patch; None for documents without pictures.
        tree: How the patches of a picture are nested.
        website: Whether the documents are pages below one ``website``.
        keep_text: Whether the roots hold the text of their document.
    """
    top = {**_SPAN, **({"text": _TEXTS} if keep_text else {})}
    nodes: dict[str, dict[str, Feature]] = {"website": {}} if website else {}
    if root == "page":
        top |= {"title": _TEXTS, "path": _TEXTS}
    nodes |= {
        root: top,
        "section": {**_CHILD, "level": _ID},
        "block": {**_CHILD, "role": _ID},
        "paragraph": {**_CHILD, "role": _ID},
        "sentence": _CHILD,
        "token": {**_CHILD, "x": _ID},
    }
    flow = [root, "section", "block"]
    edges: list[tuple[str, str, str]] = []
    edges += [(root, CHILD_OF, "website")] if website else []
    edges += [("section", CHILD_OF, parent) for parent in flow]
    edges += [("block", CHILD_OF, parent) for parent in flow]
    edges += [("paragraph", CHILD_OF, parent) for parent in flow]
    edges += [("sentence", CHILD_OF, "paragraph"), ("token", CHILD_OF, "sentence")]
    if patch_width is not None:
        place = Feature((2,), torch.float)
        nodes["image"] = {"pos": _CHILD["pos"], **IMAGE_SIZES}
        edges.append(("image", CHILD_OF, "block"))
        if website:
            edges.append(("image", CHILD_OF, "website"))
        if tree == "quadtree":
            nodes["quadrant"] = {"pos": place}
            edges.append(("quadrant", CHILD_OF, "image"))
            edges.append(("quadrant", CHILD_OF, "quadrant"))
            edges.append(("patch", CHILD_OF, "quadrant"))
        nodes["patch"] = {"x": Feature((patch_width,)), "pos": place}
        edges += [("patch", CHILD_OF, "image"), ("block", SHOWS, "image")]
    attributes: dict[tuple[str, str, str], dict[str, Feature]] = {
        edge: {} for edge in edges
    }
    if website:
        attributes[root, LINKS_TO, root] = {"count": _ID}
    return Schema(nodes=nodes, edges=attributes)
