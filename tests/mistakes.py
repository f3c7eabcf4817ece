"""Mistakes that newcomers make, each with what its message must say.

``test_newcomer_mistakes.py`` makes them, and ``docs/troubleshooting.md`` quotes them.
"""

import sys

import torch
import torch_geometric.loader
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import to_hetero

from hsa_pyg import HSAConv, NestedSignal, SignalHierarchy, hierarchical_attention
from hsa_pyg.loader import DataLoader
from hsa_pyg.nn import HSATransformer

WORDS = ("word", "child_of", "sentence")
SENTENCES = ("sentence", "child_of", "document")
#: Document 0, sentences 1 and 2, three words and two.
TREE = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 1, 2, 2]))


def document(words=3, width=8):
    """Two sentences of some words."""
    signal = NestedSignal()
    signal["document"].num_nodes = 1
    signal["sentence"].num_nodes = 2
    signal["word"].x = torch.ones(2 * words, width)
    ids = torch.arange(2 * words)
    signal[WORDS].edge_index = torch.stack([ids, ids // words])
    signal[SENTENCES].edge_index = torch.tensor([[0, 1], [0, 0]])
    return signal


def illustrated():
    """The same with a picture of two patches."""
    signal = document()
    signal["image"].num_nodes = 1
    signal["patch"].x = torch.ones(2, 4)
    signal["patch", "child_of", "image"].edge_index = torch.tensor([[0, 1], [0, 0]])
    signal["image", "child_of", "document"].edge_index = torch.tensor([[0], [0]])
    return signal


def edited(kind, edge, new=None):
    """A document with other edges of a kind, by default under the same type."""
    signal = document()
    del signal[kind]
    signal[new or kind].edge_index = edge
    return signal


def edges():
    return document()[WORDS].edge_index


def conv():
    return HSAConv(8, 8, heads=2)


def model(**options):
    options = {"channels": 8, "heads": 2, **options}
    return HSATransformer.from_schema(document().schema, out_channels=2, **options)


def first(signals, loader=DataLoader):
    return next(iter(loader(signals, batch_size=len(signals))))


MISTAKES = {}


def mistake(*said):
    """Register a mistake, with what its message must name and what it advises."""

    def register(function):
        MISTAKES[function.__name__] = (function, said)
        return function

    return register


@mistake("shape [5, channels]", "got (8, 8)", "pass x[hierarchy.leaves]")
def features_of_inner_nodes():
    conv()(torch.ones(TREE.num_nodes, 8), TREE)


@mistake("got (2, 5, 8)", "below one another, without padding")
def padded_batch():
    conv()(torch.ones(2, 5, 8), TREE)


@mistake("x has 7 channels", "made for 8", "in_channels=7")
def features_of_another_width():
    conv()(torch.ones(5, 7), TREE)


@mistake("x is torch.int64", "embed ids first")
def token_ids_into_a_layer():
    conv()(torch.ones(5, 8, dtype=torch.long), TREE)


@mistake("q must have shape [num_leaves, heads, channels]", "got (5, 8)")
def no_heads():
    hierarchical_attention(*torch.ones(3, 5, 8), TREE)


@mistake("7 roots", "node 0 of type 'word'", "('word', 'in', 'sentence')", "'child_of'")
def another_relation_than_child_of():
    edited(WORDS, edges(), ("word", "in", "sentence")).validate()


@mistake("none of the edge types [('word', 'in', 'sentence')]", "name the relation so")
def another_relation_into_a_layer():
    x = {"word": torch.ones(6, 8)}
    HSAConv({"word": 8}, 8, heads=2)(x, {("word", "in", "sentence"): edges()})


@mistake("node 2 of type 'sentence', which has 2 nodes", "edge_index.flip(0)")
def rows_of_child_and_parent_swapped():
    edited(WORDS, edges().flip(0)).validate()


@mistake(
    "node 0 of type 'sentence' has more than one parent",
    "an edge type is (child_type, 'child_of', parent_type)",
)
def types_of_child_and_parent_swapped():
    edited(WORDS, edges().flip(0), ("sentence", "child_of", "word")).validate()


@mistake("must hold int64", "got int64 [6, 2]", "edge_index.t()")
def transposed_edges():
    edited(WORDS, edges().t()).validate()


@mistake("must hold int64", "got float32 [2, 6]", "edge_index.long()")
def edges_of_floats():
    edited(WORDS, edges().float()).validate()


@mistake("parent must hold integers, got torch.float32", "parent.long()")
def parents_of_floats():
    SignalHierarchy.from_parents(torch.tensor([-1.0, 0.0]))


@mistake("node 2 is its own ancestor", "mark one node as a root (-1)")
def cyclic_parents():
    SignalHierarchy.from_parents(torch.tensor([-1, 0, 3, 2]))


@mistake(
    "node 0 of type 'word' has more than one parent, node 0 of type 'sentence' and "
    "node 0 of type 'document'",
    "keep one of its edges",
)
def two_parents():
    signal = document()
    signal["word", "child_of", "document"].edge_index = torch.tensor([[0], [0]])
    signal.validate()


@mistake("node 0 of type 'sentence' is a leaf but has a child", "a child of its own")
def features_on_a_parent():
    signal = document()
    signal["sentence"].x = torch.ones(2, 8)
    signal.validate()


@mistake("type 'document' has neither 'x' nor 'num_nodes'", ".num_nodes")
def forgotten_number_of_nodes():
    signal = document()
    del signal["document"].num_nodes
    signal.validate()


@mistake("'x' of node 1 of type 'word' holds nan or inf", "torch.nan_to_num(x)")
def nan_among_the_features():
    signal = document()
    signal["word"].x[1, 2] = float("nan")
    signal.validate()


@mistake("'out_channels' (got 10) must be divisible by", "(got 4)")
def heads_that_do_not_divide():
    HSAConv(8, 10, heads=4)


@mistake("'channels' (got 10) must be divisible by", "(got 4)")
def heads_that_do_not_divide_a_model():
    model(channels=10, heads=4)


@mistake("2 leaves of type 'patch', but x has only ['word']", "give x['patch'] a row")
def a_type_missing_in_x_dict():
    signal = illustrated()
    layer = HSAConv({"word": 8, "patch": 4}, 8, heads=2)
    layer({"word": signal["word"].x}, signal.hierarchy)


@mistake("unknown leaf type 'patch'", "names only ['word']; add it there")
def a_type_missing_in_the_layer():
    signal = illustrated()
    HSAConv({"word": 8}, 8, heads=2)(signal.x_dict, signal.hierarchy)


@mistake("2 leaves of type 'patch' lack an encoder", "hsa_pyg.data.union_schema")
def a_model_of_another_schema():
    model()(illustrated())


@mistake("x['word'] must have shape [6, channels]", "got (12, 8)", "batch.hierarchy")
def hierarchy_of_one_sample_for_a_batch():
    signal = document()
    batch = first([signal, signal])
    HSAConv({"word": 8}, 8, heads=2)(batch.x_dict, signal.hierarchy)


@mistake("got Tensor", "SignalHierarchy.from_parents(parent)", "batch.hierarchy")
def one_edge_index_in_place_of_a_hierarchy():
    conv()(torch.ones(5, 8), torch.tensor([[0, 1], [1, 0]]))


@mistake("got NestedSignal", "pass its .hierarchy")
def a_signal_in_place_of_its_hierarchy():
    conv()(torch.ones(6, 8), document())


@mistake("on cpu and the hierarchy on meta", "hierarchy.to('cpu')")
def hierarchy_on_another_device():
    conv()(torch.ones(5, 8), TREE.to("meta"))


@mistake("'x' of type 'word' on meta", "use signal.to(device)")
def signal_on_two_devices():
    signal = document()
    signal["word"].x = signal["word"].x.to("meta")
    signal.validate()


@mistake("sample 1 has type 'image', which sample 0 lacks", "hsa_pyg.loader.DataLoader")
def the_loader_of_pyg_for_unlike_types():
    first([document(), illustrated()], torch_geometric.loader.DataLoader)


@mistake("there is no sample to make a batch of", "at least one index")
def an_empty_batch():
    list(DataLoader([document()], batch_sampler=[[]]))


@mistake("sample 1: attribute 'y' of the whole sample", "such as torch.tensor([0])")
def labels_of_unlike_kinds():
    one, other = document(), document()
    one.y, other.y = 1, torch.tensor([0])
    first([one, other])


@mistake("got HeteroDataBatch", "NestedSignal.from_dict(data.to_dict())")
def hetero_data_into_a_model():
    signal, plain = document(), HeteroData()
    for kind, store in signal.node_items():
        plain[kind].update(store.to_dict())
    for kind, store in signal.edge_items():
        plain[kind].edge_index = store.edge_index
    model()(Batch.from_data_list([plain, plain]))


@mistake("got DataBatch", "from_graph(data)", "ToHierarchy()")
def a_graph_into_a_model():
    graph = Data(x=torch.ones(3, 8), edge_index=torch.tensor([[0, 1], [1, 2]]))
    model()(Batch.from_data_list([graph, graph]))


@mistake("cannot be traced by torch.fx", "takes x_dict and edge_index_dict as it is")
def to_hetero_around_a_layer():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv()

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    to_hetero(Net(), document().metadata())


@mistake("top_k is not available with causal=True", "leave one of them out")
def causal_with_a_choice_of_siblings():
    hierarchical_attention(*torch.ones(3, 5, 2, 4), TREE, causal=True, top_k=2)


@mistake("backend 'cuda' is unknown", "'auto'")
def a_backend_that_is_none():
    hierarchical_attention(*torch.ones(3, 5, 2, 4), TREE, backend="cuda")


@mistake("token id 57", "ids 0 to 9", "raise vocab_sizes['word']")
def a_token_out_of_the_vocabulary():
    signal = document()
    signal["word"].x = torch.full((6,), 57)
    HSATransformer.from_schema(signal.schema, 2, vocab_sizes={"word": 10})(signal)


@mistake("give its size in vocab_sizes")
def token_ids_without_a_vocabulary():
    signal = document()
    signal["word"].x = torch.zeros(6, dtype=torch.long)
    HSATransformer.from_schema(signal.schema, 2)


@mistake('Finding the main content of web pages needs trafilatura: pip install "hsa-')
def a_missing_extra():
    from hsa_pyg.converters import from_html

    hidden = sys.modules.get("trafilatura")
    sys.modules["trafilatura"] = None
    try:
        from_html("<p>It.", main_content=True)
    finally:
        sys.modules.pop("trafilatura")
        if hidden is not None:
            sys.modules["trafilatura"] = hidden


@mistake("data-dependent expression")
def a_hierarchy_built_within_compiled_code():
    layer = conv()

    def step(x, parent):
        return layer(x, SignalHierarchy.from_parents(parent))

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    compiled(torch.ones(5, 8), TREE.parent)
