"""What converting takes: documents, a website, pictures and graphs.

Each row is one conversion of real data that come with the package, or of a random
graph with 5 edges a vertex, in this process on one thread; seconds are processor time,
which other work on the machine changes little. The share of edges inside the lowest
communities tells how well a method follows the graph.
"""

from __future__ import annotations

import tempfile
import time
import zipfile
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch_geometric.data import Data
from tqdm import tqdm

from benchmarks.report import Options, Section
from benchmarks.timing import table, threads
from hsa_pyg import NestedSignal
from hsa_pyg.converters import DocumentConverter, from_graph, from_image, from_website
from hsa_pyg.datasets import SqliteSite
from hsa_pyg.datasets.shipped import shipped_file

MAX_FAMILY = 64


def timed(function: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """Median processor time of a call, and its last result."""
    taken = []
    for _ in range(runs):
        start = time.process_time()
        result = function()
        taken.append(time.process_time() - start)
    return median(taken), result


def reviews(number: int) -> list[str]:
    """The texts of film reviews."""
    with zipfile.ZipFile(shipped_file("movie_reviews", "movie_reviews.zip")) as files:
        names = sorted(name for name in files.namelist() if "/pos/cv" in name)
        return [files.read(name).decode() for name in names[:number]]


def random_graph(vertices: int) -> Data:
    """A graph of ``vertices`` and five times as many edges, drawn with a seed."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(vertices, (2, 5 * vertices), generator=generator)
    return Data(edge_index=edges, num_nodes=vertices)


def inside_communities(signal: NestedSignal) -> float:
    """Share of the edges whose ends have the same parent."""
    parent = torch.full((signal["vertex"].num_nodes,), -1)
    child, above = signal["vertex", "child_of", "community"].edge_index
    parent[child] = above
    source, target = signal["vertex", "to", "vertex"].edge_index
    return float((parent[source] == parent[target]).float().mean())


def document_rows(options: Options) -> list[list[str]]:
    """Plain text, the shipped website and a picture."""
    runs = options.runs
    convert, texts = DocumentConverter(), reviews(2 if options.quick else 100)
    seconds, signals = timed(lambda: [convert.text(text) for text in texts], runs)
    tokens = sum(signal["token"].num_nodes for signal in signals)
    rows = [[f"{len(texts)} film reviews", f"{tokens:,} tokens", f"{seconds:.2f}"]]
    folder = SqliteSite(tempfile.mkdtemp(), log=False).site
    seconds, site = timed(lambda: from_website(folder, progress=False), runs)
    size = f"{site['page'].num_nodes} pages, {site['token'].num_nodes:,} tokens"
    rows.append(["the shipped pages of SQLite", size, f"{seconds:.2f}"])
    picture = torch.rand(3, 1000, 1000)
    seconds, signal = timed(lambda: from_image(picture), runs)
    size = f"{signal['patch'].num_nodes:,} patches"
    rows.append(["a picture of 1,000 x 1,000 pixels", size, f"{seconds:.3f}"])
    return rows


def graph_row(data: Data, method: str) -> list[str]:
    """A graph by one method."""
    seconds, signal = timed(
        lambda: from_graph(data, method, max_family=MAX_FAMILY),  # type: ignore[arg-type]
        1,
    )
    hierarchy = signal.hierarchy
    return [
        f"{data.num_nodes:,} vertices, {data.num_edges:,} edges: {method}",
        f"{signal['community'].num_nodes:,} communities, depth "
        f"{hierarchy.max_depth}, families of at most {hierarchy.max_branching}, "
        f"{inside_communities(signal):.0%} of the edges inside",
        f"{seconds:.1f}",
    ]


HEAD = ["conversion", "result", "seconds"]


def documents(options: Options) -> Section:
    """Texts, the shipped website, a picture."""
    with threads(1):
        return Section(table(HEAD, document_rows(options)))


def graphs(options: Options) -> Section:
    """Large random graphs by every method."""
    number = 200 if options.quick else 200_000
    with threads(1):
        large = random_graph(number)
        methods = ("leiden", "metis", "bisection")
        rows = [graph_row(large, method) for method in tqdm(methods, leave=False)]
        rows.append(graph_row(random_graph(number // 10), "louvain"))
    return Section(table(HEAD, rows))


SECTIONS = {"documents": documents, "graphs": graphs}
