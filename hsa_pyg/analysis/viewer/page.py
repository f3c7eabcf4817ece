"""The viewer's page: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.analysis.block_weights import collect_block_weights, run_model
from hsa_pyg.analysis.tree_shape import tree_shape
from hsa_pyg.analysis.viewer.contents import TreeOrder, check_signal, tree_contents
from hsa_pyg.analysis.viewer.weights import weight_contents
from hsa_pyg.data import NestedSignal
from hsa_pyg.ops.weights import FamilyWeights

MAX_LEAVES = 20_000
MAX_WEIGHTS = 2_000_000
_SCRIPTS = ("signal.js", "reading.js", "tree.js", "attention.js", "start.js")


def write_viewer(
    path: str | os.PathLike[str], signal: NestedSignal, **options: Any
) -> None:
    """Write the page of a signal: :func:`render_viewer` with a file.

    Args:
        path: the file; the page is in it as a whole or not at all.
        signal: the signal.
        **options: arguments of :func:`render_viewer`.
    """
    page = render_viewer(signal, **options)
    part = Path(f"{os.fspath(path)}.part")
    try:
        part.write_text(page, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def render_viewer(
    signal: NestedSignal,
    *,
    model: torch.nn.Module | None = None,
    weights: Sequence[FamilyWeights] | None = None,
    classes: Sequence[str] | None = None,
    roles: Mapping[str, Sequence[str]] | None = None,
    title: str | None = None,
    max_leaves: int = MAX_LEAVES,
    max_weights: int = MAX_WEIGHTS,
) -> str:
    """Return one HTML page that shows a signal, and needs nothing but itself.

    The tree can be folded and walked through with the keyboard; its text is there to be
    read, with its pictures. With a model, or weights, a click on any node shows where
    its attention goes: at every level the siblings of the node, or of the node above
    it, are shaded by the weight of their block.

    Args:
        signal: a signal of one tree.
        model: a model of such signals; see :func:`~hsa_pyg.analysis
            .collect_block_weights`. Its output is shown, too.
        weights: weights of each layer, if they are at hand already.
        classes: names of the model's outputs, which then count as logits.
        roles: names of the numbers in ``role``, by node type: ``{"block": ROLES,
            "paragraph": ROLES}`` for documents, with ``hsa_pyg.converters.ROLES``, so
            that headings and tables look like ones.
        title: title of the page; by default the signal's ``source``.
        max_leaves: most leaves; larger pages are slow to use.
        max_weights: most attention weights, of all layers and heads. If there are more,
            the heads are averaged.

    Raises:
        TypeError: if it is no signal.
        ValueError: if it is too large or not one tree, the model has no block weights,
            or ``classes`` are not as many as its outputs.

    Example:
        >>> from hsa_pyg.datasets import FakeNestedDataset
        >>> page = render_viewer(FakeNestedDataset(num_samples=1)[0], title="A <tree>")
        >>> page.splitlines()[0], "<title>A &lt;tree&gt;</title>" in page
        ('<!doctype html>', True)
    """
    check_signal(signal, max_leaves)
    order = TreeOrder(signal)
    name = title or _source(signal) or "Nested signal"
    shape = tree_shape(signal)
    data = {
        "title": name,
        **tree_contents(signal, order, roles),
        "shape": {
            "levels": shape.levels,
            "families": shape.families,
            "largest": shape.largest_family,
            "pairs": shape.pairs,
            "flat": shape.flat_pairs,
        },
    }
    if model is not None:
        data["output"] = _output(run_model(model, signal), classes)
        if weights is None:
            weights = collect_block_weights(model, signal)
    if weights is not None:
        data["weights"] = weight_contents(weights, order, max_weights)
    return _fill(name, data)


def _source(signal: NestedSignal) -> str:
    """What a signal is called: its source, or the title or path of its only page."""
    pages = signal["page"] if "page" in signal.node_types else {}
    names = [signal._global_store.get("source", "")]
    names += [
        pages[name][0] for name in ("title", "path") if len(pages.get(name, ())) == 1
    ]
    return next((name for name in names if isinstance(name, str) and name), "")


def _output(output: Tensor, classes: Sequence[str] | None) -> dict[str, Any]:
    row = output.detach().float().cpu().reshape(-1)
    if not bool(row.isfinite().all()):
        raise ValueError("the model's output for this signal is not finite")
    if classes is None and row.numel() < 2:
        return {"names": ["output"], "values": row.tolist(), "probabilities": False}
    names = [f"class {i}" for i in range(row.numel())]
    if classes is not None:
        names = [str(name) for name in classes]
    if len(names) != row.numel():
        raise ValueError(
            f"the model has {row.numel()} outputs, but there are {len(names)} names in "
            "classes"
        )
    return {
        "names": names,
        "values": row.softmax(dim=0).tolist(),
        "probabilities": True,
    }


def _fill(title: str, data: dict[str, Any]) -> str:
    folder = files(__package__ or "hsa_pyg.analysis.viewer")
    style = (folder / "page.css").read_text(encoding="utf-8")
    script = "".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    # The page may run this script and this style, and may not load anything.
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src "
        f"{_digest(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(_printable(title)),
        "policy": policy,
        "style": style,
        "script": script,
        "data": _json(data),
    }
    template = (folder / "page.html").read_text(encoding="utf-8")
    # In one pass: what is put in may look like a gap itself.
    return re.sub(r"\{\{(\w+)\}\}", lambda gap: parts[gap[1]], template)


def _digest(code: str) -> str:
    digest = hashlib.sha256(code.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json(data: dict[str, Any]) -> str:
    # ASCII alone, and no markup: the text of a signal may be "</script>", a NUL or an
    # override of the writing direction.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _printable(text: str) -> str:
    """Text without control characters and overrides of the writing direction."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.encode("utf-8", "replace").decode("utf-8")
