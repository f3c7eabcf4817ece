from hsa_pyg.converters.flow import MAX_DEPTH, FlowBuilder
from hsa_pyg.converters.sentences import split_lines
from tests.block_trees import depth, outline


def flow():
    return FlowBuilder("document", split_lines)


def built(flow):
    return outline(flow.finish(), flow.text)[1:]


def test_white_space_collapses_across_pieces():
    written = flow()
    for piece in (" a ", " ", "\tb", "c\n", " d\xa0 \xa0e ", ""):
        written.write(piece)
    assert built(written) == (("paragraph", "a bc d\xa0 \xa0e"),)


def test_white_space_around_line_breaks_goes():
    written = flow()
    written.line_break()
    written.write("a ")
    written.line_break()
    written.write(" b")
    written.line_break()
    assert (built(written), written.text) == ((("paragraph", "a", "b"),), "a\nb")


def test_preserved_white_space_stays():
    written = flow()
    written.write("a  ")
    written.write("b \n  c", preserve=True)
    written.write("  d")
    written.finish()
    assert written.text == "a b \n  c d"


def test_containers_without_content_leave_nothing():
    written = flow()
    outer = written.open("list")
    inner = written.open("item")
    written.close(inner, "item")
    written.close(outer, "list")
    written.write("x")
    assert built(written) == (("paragraph", "x"),)


def test_separators_follow_what_lies_between():
    written = flow()
    written.write("a")
    table = written.open("table")
    for cells in (("b", "c"), ("d", "")):
        row = written.open("row")
        for text in cells:
            cell = written.open("cell")
            written.write(text)
            written.close(cell, "cell")
        written.close(row, "row")
    written.close(table, "table")
    written.write("e")
    root = written.finish()
    assert written.text == "a\n\nb\tc\nd\n\ne"
    assert written.text[root.children[1].start : root.children[1].stop] == "b\tc\nd"


def test_outlines_end_sections_but_are_no_blocks():
    written = flow()
    outline_mark = written.open_outline()
    written.heading(2)
    written.write("A")
    written.end_heading()
    written.close(outline_mark)
    written.write("b")
    assert built(written) == (("h2", ("heading", "A")), ("paragraph", "b"))


def test_nothing_nests_deeper_than_the_bound():
    written = flow()
    marks = [written.open("item") for _ in range(2 * MAX_DEPTH)]
    written.heading(1)
    written.write("x")
    written.end_heading()
    while marks:
        written.close(marks.pop(), "item")
    written.write("y")
    root = written.finish()
    assert depth(root) == MAX_DEPTH + 2
    assert written.text == "x\ny"
    assert [child.role for child in root.children] == ["item", "paragraph"]
