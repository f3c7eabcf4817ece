"""The benchmarks run, and what they compare is what they say it is."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import (
    compilation,
    core,
    focus,
    goals,
    growth,
    limit,
    memory,
    training,
    zero_shot,
)
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.cases import Case
from benchmarks.peak import extra_peak, extra_peak_of
from benchmarks.report import Options, Panel, Section, draw, page, sections_of
from benchmarks.timing import Goal, duration, ratios, side_by_side, size, spread, table
from benchmarks.trees import Tree, caterpillar
from hsa_pyg import SignalHierarchy

QUICK = Options(runs=1, quick=True, backend="torch", budget=1.0)
MODULES = [compilation, core, focus, growth, limit, memory, training]
SECTIONS = [
    pytest.param(section, id=f"{module.__name__.split('.')[1]}-{name}")
    for module in MODULES
    for name, section in module.SECTIONS.items()
]


def tables(text):
    """The tables of a page: rows of cells, the line of dashes left out."""
    blocks = [part.splitlines() for part in text.split("\n\n")]
    return [
        [line.strip("| ").split(" | ") if "|" in line else [] for line in block]
        for block in blocks
        if block[0].startswith("| ")
    ]


def check_section(section):
    assert tables(section.text)
    for lines in section.text.split("\n\n"):
        if lines.startswith("| "):
            widths = {line.count("|") for line in lines.splitlines()}
            assert len(widths) == 1
            assert len(lines.splitlines()) > 2
    for word in ("nan", "inf"):
        assert word not in section.text.replace("inferior", "").split()
    for panel in section.panels:
        for points in panel.curves.values():
            assert points
            assert all(x > 0 and y >= 0 and math.isfinite(y) for x, y in points)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_gives_a_table_and_its_curves(section):
    check_section(section(QUICK))


class TestCases:
    def test_softmax_is_hsa_on_a_flat_tree(self):
        flat = Case(Tree(50, 50, 50), backend="torch").call()()
        softmax = Case(Tree(50), attention="softmax").tensors((50, 8, 64))
        q, k, v = (x.transpose(0, 1)[None] for x in softmax)
        expected = scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)
        torch.testing.assert_close(flat, expected)

    def test_gradients_are_those_of_q_k_and_v(self):
        grads = Case(Tree(50), gradient=True, backend="torch").call()()
        assert [x.shape for x in grads] == [(50, 8, 64)] * 3
        assert all(torch.isfinite(x).all() and x.abs().sum() > 0 for x in grads)

    def test_a_case_survives_json(self):
        case = Case(Tree(9, 2, 3, number=2), "hsa", True, "torch", 2, 4)
        assert Case.from_json(case.to_json()) == case

    def test_the_bytes_are_those_of_q_k_and_v(self):
        tensors = Case(Tree(50)).tensors((50, 8, 64))
        assert Case(Tree(50)).bytes == sum(x.nbytes for x in tensors)

    def test_a_batch_one_by_one_is_the_batch(self):
        case = Case(Tree(20, 3, 5, number=3), "hsa", False, "torch", 2, 4)
        for compiled in (True, False):
            one_by_one, batched = core._one_by_one_and_batched(case, compiled)
            torch.testing.assert_close(torch.cat(one_by_one()), batched())


class TestTrees:
    def test_a_caterpillar_has_a_leaf_at_every_depth(self):
        hierarchy = SignalHierarchy.from_parents(caterpillar(11))
        depths = hierarchy.depth[hierarchy.leaves].sort().values
        assert depths.tolist() == [*range(1, 11), 10]
        assert hierarchy.max_branching == 2

    def test_trees_have_the_leaves_that_they_are_asked_for(self):
        for tree in (Tree(100), Tree(100, 6, 26), Tree(100, caterpillar=True)):
            assert tree.hierarchy().num_leaves == 100
        batch = Tree(200, number=8).hierarchy()
        assert batch.num_trees == 8
        assert 8 * 150 <= batch.num_leaves <= 8 * 250

    def test_relabelling_keeps_the_forest(self):
        parent = Tree(100, 3, 7).parents()
        before = SignalHierarchy.from_parents(parent)
        after = SignalHierarchy.from_parents(compilation.relabelled(parent))
        assert torch.equal(before.depth.bincount(), after.depth.bincount())
        assert before.num_families == after.num_families

    def test_forests_have_about_the_nodes_that_they_are_asked_for(self):
        for name, parent in compilation.forests(2000).items():
            assert 1700 <= parent.numel() <= 2100, name

    def test_pairs_are_counted_by_family(self):
        hierarchy = SignalHierarchy.from_parents(torch.tensor([-1, 0, 0, 1, 1, 1]))
        assert limit.pairs(hierarchy) == 2**2 + 3**2


class TestTiming:
    def test_calls_run_in_turn(self):
        seen = []
        calls = {name: lambda name=name: seen.append(name) for name in "ab"}
        times = side_by_side(calls, runs=3)
        assert seen == ["a", "b"] * 5
        assert [len(taken) for taken in times.values()] == [3, 3]

    def test_a_budget_ends_the_rounds_but_not_before_the_first(self):
        times = side_by_side({"a": lambda: None}, runs=9, budget=0.0)
        assert len(times["a"]) == 1

    def test_goals_point_up_or_down(self):
        up, down, alone = Goal(20, 40), Goal(1.0, 0.7), Goal(1.3)
        assert [up.reached(x) for x in (10, 20, 50)] == ["no", "bar", "aim"]
        assert [down.reached(x) for x in (1.1, 0.9, 0.7)] == ["no", "bar", "aim"]
        assert alone.cells(1.2) == ["≤ 1.3", "", "bar"]
        assert up.cells(1.0) == ["≥ 20", "≥ 40", "no"]

    def test_numbers_have_units(self):
        assert duration(0.0123) == "12.3 ms"
        assert duration(2e-7) == "0.20 µs"
        assert duration(75.0) == "75.0 s"
        assert size(3 * 2**20) == "3.00 MiB"
        assert size(100) == "0.10 KiB"

    def test_ratios_are_taken_round_by_round(self):
        assert ratios([2.0, 6.0], [1.0, 2.0]) == [2.0, 3.0]
        assert spread([3.0, 2.0, 7.0]) == "3.00 (2.00 to 7.00)"


class TestPeak:
    def test_a_known_allocation_is_found(self):
        found = extra_peak(lambda: torch.ones(24 * 2**20))
        assert found / 2**20 == pytest.approx(96, rel=0.02)

    def test_what_is_freed_on_the_way_counts(self):
        def call():
            first = torch.ones(24 * 2**20)
            second = first + 1  # both at once: 192 MiB
            return second[:1].clone()

        # The system counts pages in batches, a few dozen late.
        assert extra_peak(call) / 2**20 == pytest.approx(192, rel=0.02)

    def test_another_process_finds_softmax_attention_to_need_its_output(self):
        case = Case(Tree(4096), attention="softmax")
        assert 1 / 3 <= extra_peak_of(case) / case.bytes < 1

    def test_a_process_that_fails_says_why(self):
        with pytest.raises(MemoryError, match="nothing of the kind"):
            extra_peak_of(Case(Tree(64), backend="nothing of the kind"))


class TestPage:
    def test_a_page_is_read_back_section_by_section(self):
        parts = {"one": "## one\n\nText.\n", "two": "## two\n\n| a |\n"}
        text = page("name", "What it is.", parts)
        assert text.startswith("# Benchmark: name\n\nWhat it is.\n")
        assert sections_of(text) == parts

    def test_one_section_is_replaced_and_the_others_kept(self, tmp_path, capsys):
        for section in ("moving", "levels", "moving"):
            main(["limit", section, "--quick", "--docs", str(tmp_path)])
        written = (tmp_path / "benchmarks" / "limit.md").read_text()
        assert list(sections_of(written)) == ["moving", "levels"]
        assert "python -m benchmarks limit levels --runs 9 --quick" in written
        assert "## levels" in capsys.readouterr().out

    def test_curves_are_drawn_where_the_page_looks(self, tmp_path):
        main(["compile", "--quick", "--docs", str(tmp_path)])
        written = (tmp_path / "benchmarks" / "compile.md").read_text()
        assert "](../images/benchmark_compile_nodes.png)" in written
        assert (tmp_path / "images" / "benchmark_compile_nodes.png").stat().st_size

    def test_the_same_curves_give_the_same_picture(self, tmp_path):
        panel = Panel("x", "y", {"one": [(1, 2), (10, 30)], "none": []})
        for name in ("a.png", "b.png"):
            draw([panel, panel], tmp_path / name)
        first, second = ((tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
        assert first == second

    def test_an_unknown_section_is_named_with_those_that_there_are(self):
        with pytest.raises(SystemExit, match=r"no section none; .* moving, floors"):
            main(["limit", "none"])

    def test_every_page_of_the_docs_has_a_benchmark(self):
        pages = (Path(__file__).parents[1] / "docs" / "benchmarks").glob("*.md")
        known = {*BENCHMARKS, *(f"zero_shot_{name}" for name in zero_shot.SECTIONS)}
        assert {path.stem for path in pages} <= known

    def test_a_table_has_a_line_of_dashes(self):
        assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
        assert Section("text").machine.count("torch")


class TestGoals:
    def test_rows_with_a_bar_are_gathered_and_put_between_the_marks(self, tmp_path):
        (tmp_path / "benchmarks").mkdir()
        rows = [["x / y", "1.2", "≤ 1.4", "≤ 1.1", "bar"], ["rest", "9", "", "", ""]]
        one = table(["A / B", "A / B (spread)", "bar", "aim", "reached"], rows)
        rows = [["HSA", "forward", "3.1", "≤ 3", "≤ 1.5", "no"]]
        two = table(["attention", "passes", "over", "bar", "aim", "reached"], rows)
        parts = {"one": f"## one\n\n{one}\n", "two": f"## two\n\n{two}\n"}
        (tmp_path / "benchmarks" / "b.md").write_text(page("b", "", parts))
        path = tmp_path / "performance.md"
        path.write_text(f"Before.\n\n{goals.BEGIN}\nold\n{goals.END}\n\nAfter.\n")
        for _ in range(2):
            goals.write_goals(tmp_path)
        text = path.read_text()
        assert text.startswith("Before.")
        assert text.endswith("After.\n")
        assert "old" not in text
        assert goals.rows_of(text) == [
            dict(zip(goals.HEAD, cells, strict=True))
            for cells in (
                [
                    "x / y",
                    "≤ 1.4",
                    "≤ 1.1",
                    "1.2",
                    "bar",
                    "[b one](benchmarks/b.md#one)",
                ],
                [
                    "HSA, forward: over",
                    "≤ 3",
                    "≤ 1.5",
                    "3.1",
                    "no",
                    "[b two](benchmarks/b.md#two)",
                ],
            )
        ]

    def test_a_page_without_marks_is_refused(self, tmp_path):
        (tmp_path / "performance.md").write_text("Nothing.\n")
        with pytest.raises(ValueError, match="must hold"):
            goals.write_goals(tmp_path)

    def test_the_page_on_performance_is_up_to_date(self):
        docs = Path(__file__).parents[1] / "docs"
        assert goals.collect(docs) in (docs / "performance.md").read_text()


class TestTraining:
    def test_the_marks_change_nothing(self):
        data = training.batches(QUICK, 64)
        contestant = training.CONTESTANTS["HSA, whole documents"]
        schema = training.signals(QUICK, 64)[0].schema
        grads = []
        for watched in (False, True):
            model, clock = training.model(contestant, QUICK, schema), training.Clock()
            model.eval()
            if watched:
                training.watch(model, clock)
            model(data[0]).square().sum().backward()
            grads.append([p.grad for p in model.parameters() if p.grad is not None])
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
        assert {"attention, forward", "attention, backward"} <= set(clock.spent)

    def test_documents_are_cut_for_flat_attention_alone(self):
        whole = training.batches(QUICK, None)
        cut = training.batches(QUICK, 512)
        assert sum(x["token"].num_nodes for x in cut) < sum(
            x["token"].num_nodes for x in whole
        )
        counts = [training.documents(128)[0], training.documents(128)[1]]
        means = [sum(map(len, texts)) / len(texts) for texts in counts]
        assert abs(means[0] / means[1] - 1) < 0.02
