import pytest

from hsa_pyg.experiments.page import (
    compare,
    mean_and_deviation,
    provenance,
    replace_part,
    table,
)
from hsa_pyg.experiments.records import Record


def test_only_what_stands_between_the_markers_is_replaced(tmp_path):
    page = tmp_path / "docs" / "page.md"
    replace_part(page, "one", "first")
    page.write_text(f"# By hand\n\n{page.read_text()}\nand more by hand\n")
    replace_part(page, "two", "of another")
    replace_part(page, "one", "second")
    text = page.read_text()
    assert text.startswith("# By hand\n\n<!-- hsa-pyg report one: begin")
    assert "second" in text
    assert "first" not in text
    assert text.index("and more by hand") < text.index("of another")
    replace_part(page, "one", "second")
    assert page.read_text() == text


def test_a_lost_marker_is_told(tmp_path):
    page = tmp_path / "page.md"
    replace_part(page, "one", "first")
    page.write_text(page.read_text().replace("<!-- hsa-pyg report one: end -->", ""))
    with pytest.raises(ValueError, match="without the other"):
        replace_part(page, "one", "second")


def test_tables_and_numbers():
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
    assert mean_and_deviation([0.5]) == "0.500"
    assert mean_and_deviation([0.4, 0.6]) == "0.500 ± 0.141"


def test_settings_are_compared_seed_by_seed():
    found = compare({0: 0.5, 1: 0.7, 2: 0.9}, {0: 0.4, 1: 0.5, 3: 0.0})
    # Differences 0.1 and 0.2: deviation 0.0707, over the root of 2 it is 0.05.
    assert (found.mean, found.seeds) == (pytest.approx(0.15), 2)
    assert found.error == pytest.approx(0.05)
    assert str(found) == "+0.150 ± 0.050 (n=2)"
    assert str(compare({0: 0.5}, {0: 0.4})) == "+0.100 (n=1)"
    assert compare({0: 0.5}, {1: 0.4}) is None


def test_markers_in_the_wrong_order_are_told(tmp_path):
    page = tmp_path / "page.md"
    replace_part(page, "one", "first")
    begin, *middle, end = page.read_text().strip().splitlines()
    page.write_text("\n".join([end, *middle, begin]))
    with pytest.raises(ValueError, match="without the other"):
        replace_part(page, "one", "second")


def record(revision="0123456789abcdef", dirty=False, earlier=(), **versions):
    environment = {
        "revision": revision,
        "dirty": dirty,
        "processor": "some processor",
        "versions": {"torch": "2.x", "hsa-pyg": "0.1.0", "lightning": None, **versions},
    }
    if earlier:
        environment["earlier"] = [one.environment for one in earlier]
    return Record(
        experiment="semantic-focus",
        setting="full",
        seed=0,
        configuration={},
        environment=environment,
        seconds=1800.0,
        peak_memory=1,
        attention_flops=1,
        history=[],
        final={},
        facts={},
    )


def test_runs_of_one_revision_are_told_in_a_line():
    assert provenance([record(), record()]) == (
        "2 runs, 1.0 hours by the clock in all, a core each; "
        "revision 0123456789ab; torch 2.x; some processor."
    )
    assert "; revision installed 0.1.0; " in provenance([record(None, None)])


def test_uncommitted_changes_are_told():
    found = provenance([record(dirty=True)])
    assert "; revision 0123456789ab with uncommitted changes; " in found


def test_several_revisions_are_told_with_their_runs():
    other = record("f" * 40, dirty=True)
    # Begun by one revision, and gone on with another, twice.
    both = record("f" * 40, earlier=[record(), record()])
    assert (
        "; several revisions: 0123456789ab (2 runs), "
        "0123456789ab then ffffffffffff (1 run), "
        "ffffffffffff with uncommitted changes (1 run); torch 2.x;"
    ) in provenance([other, both, record(), record()])


def test_versions_that_differ_are_told():
    found = provenance([record(numpy="1"), record(numpy="2"), record(torch="2.y")])
    assert "; torch 2.x, 2.y; numpy 1, 2; some processor." in found
    found = provenance([record(), record(earlier=[record(lightning="2.5")])])
    assert "; torch 2.x; lightning 2.5, none; some processor." in found
