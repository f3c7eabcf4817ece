import contextlib
import io
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.loader import DataLoader

from hsa_pyg.converters import from_newick, from_newick_file
from hsa_pyg.converters.newick import newick_schema
from hsa_pyg.data import Schema

APES = "((human:6.2,chimp:6.2)90:2.1,'Gorilla g. ''silverback''':8.3)[&R] root;"


def test_taxa_are_leaves_with_the_lengths_of_their_branches():
    signal = from_newick(APES, y=1)
    assert signal.validate()
    assert Schema.of(signal).nodes == newick_schema().nodes
    assert signal["taxon"].name == ["human", "chimp", "Gorilla g. 'silverback'"]
    assert signal["taxon"].x.equal(torch.tensor([[6.2], [6.2], [8.3]]))
    assert signal["taxon"].length.equal(signal["taxon"].x.view(-1))
    assert signal["taxon"].pos.tolist() == [[0], [1], [1]]
    assert signal["clade"].name == ["root", ""]
    assert signal["clade"].support.isnan().tolist() == [True, False]
    assert signal["clade"].support[1] == 90
    assert signal["clade"].length.isnan().tolist() == [True, False]
    assert signal["taxon", "child_of", "clade"].edge_index.tolist() == [
        [0, 1, 2],
        [1, 1, 0],
    ]
    assert signal.y.tolist() == [1]


def test_lengths_that_are_absent_are_nan_and_zero_as_features():
    signal = from_newick("(a,b:2)")
    assert signal["taxon"].length.isnan().tolist() == [True, False]
    assert signal["taxon"].x.tolist() == [[0], [2]]
    assert signal.validate()


def test_taxa_may_have_ids():
    signal = from_newick("(b,(a,b))", taxa=["a", "b"])
    assert signal["taxon"].x.tolist() == [1, 0, 1]
    assert Schema.of(signal).nodes == newick_schema(with_taxa=True).nodes
    with pytest.raises(ValueError, match="taxon 'c' at character 3 is not in taxa"):
        from_newick("(a,c)", taxa=["a", "b"])
    assert from_newick("(a,c)", taxa=["[UNK]", "a"])["taxon"].x.tolist() == [1, 0]


def test_names_of_all_kinds_survive():
    signal = from_newick("('''q':1.,'':-2e-3,(x_y,)'two\nwords'[c]:+.5,7,inf)nan")
    assert signal["taxon"].name == ["'q", "", "x_y", "", "7", "inf"]
    assert signal["clade"].name == ["nan", "two\nwords"]
    assert signal["clade"].support.isnan().all()
    lengths = signal["taxon"].length[:2].tolist()
    assert lengths == pytest.approx([1, -0.002])


def test_a_single_taxon_is_a_tree():
    signal = from_newick("A:3;")
    assert signal.validate()
    assert signal.hierarchy.num_leaves == 1
    assert signal["clade"].num_nodes == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(A,B", "parenthesis at character 0 is never closed: .* 4 characters"),
        ("((A,B);", "';' at character 6 ends a tree whose parenthesis at character 0"),
        ("A,B);", "',' at character 1 is outside of all parentheses"),
        ("(A,B));", r"'\)' at character 5 closes no parenthesis"),
        ("(A B,C);", "'B' at character 3 follows a name"),
        ("(A:x,B);", ":x,B.*at character 2 is no length"),
        ("(A:1.x,B);", "at character 2 is no length"),
        ("(A:1e99,B);", "length 1e.99 at character 2 is too large"),
        ("(A:1 :2,B);", "':2' at character 5 follows a length"),
        ("('A,B);", "quote .* at character 1 is never closed"),
        ("(A[x,B);", "comment .* at character 2 is never closed"),
        ("((A,B)(C,D));", r"'\(' at character 6 follows a node"),
        ("(A,B)];", r"'\];' at character 5 does not belong there"),
        (";", "';' at character 0 ends no tree"),
        ("", "There are 0 trees, not one"),
        ("(A,B);\n(C,D);", "There are 2 trees, not one; from_newick_file"),
        ("#NEXUS\nbegin trees;", "is in NEXUS format"),
    ],
)
def test_broken_trees_are_named_with_their_place(text, message):
    with pytest.raises(ValueError, match=message):
        from_newick(text)


def test_caterpillars_of_ten_thousand_levels_are_read():
    levels = 10_000
    tail = "".join(f",t{level}:0.5)" for level in range(levels))
    signal = from_newick("(" * levels + "t:1" + tail + ";")
    assert signal.hierarchy.max_depth == levels
    assert signal["taxon"].x.size(0) == levels + 1
    assert signal["taxon"].name[:2] == ["t", "t0"]


def test_files_hold_one_tree_or_several(tmp_path):
    one, two = tmp_path / "one.nwk", tmp_path / "two.nwk"
    one.write_text("(A,B);\n")
    two.write_text("(A,\nB);(C,(D,E))\n;\n(F,G)")
    assert from_newick(one)["taxon"].name == ["A", "B"]
    assert from_newick(str(one))["taxon"].name == ["A", "B"]
    signals = from_newick_file(two, taxa=100)
    assert [signal["taxon"].name for signal in signals] == [
        ["A", "B"],
        ["C", "D", "E"],
        ["F", "G"],
    ]
    assert next(iter(DataLoader(signals, batch_size=3))).hierarchy.num_trees == 3
    with pytest.raises(ValueError, match="There are 3 trees"):
        from_newick(two)
    one.write_text(" \n")
    with pytest.raises(ValueError, match=r"one.nwk' holds no tree"):
        from_newick_file(one)
    with pytest.raises(FileNotFoundError):
        from_newick(tmp_path / "none.nwk")
    with pytest.raises(FileNotFoundError, match="end it with a semicolon"):
        from_newick("apes.nwk")
    one.write_bytes(b"(\xff,B);")
    with pytest.raises(ValueError, match="is not utf-8"):
        from_newick(one)


def test_signals_are_saved():
    file = io.BytesIO()
    torch.save(from_newick(APES), file)
    file.seek(0)
    assert torch.load(file, weights_only=True)["taxon"].name[0] == "human"


def test_biopython_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "Bio.Phylo.NewickIO", None)
    with pytest.raises(ImportError, match=r'pip install "hsa-pyg\[trees\]"'):
        from_newick("(A,B);")


@given(st.text("(),;:'[]a1. \n", max_size=30))
def test_nothing_but_a_value_error_comes_out(text):
    signal = None
    with contextlib.suppress(ValueError):
        signal = from_newick(text)
    assert signal is None or signal.validate()


newick = st.recursive(
    st.sampled_from(["", "a", "b:1", "'c d':2e-3"]),
    lambda inner: st.tuples(
        st.lists(inner, min_size=1), st.sampled_from(["", "x", "90:1"])
    ).map(lambda node: f"({','.join(node[0])}){node[1]}"),
)


@given(newick)
def test_every_parenthesis_is_a_clade(text):
    signal = from_newick(f"({text});")
    assert signal["clade"].num_nodes == text.count("(") + 1
    leaves = signal["taxon"].x.size(0)
    assert leaves == text.count(",") + 1
