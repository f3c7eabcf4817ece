import io
import sys

import pytest
import torch
from rich.console import Console

from hsa_pyg.cli import SettingsError, main
from hsa_pyg.cli.checkpoint import TrainedRun
from hsa_pyg.cli.inspect import inspect_path
from hsa_pyg.cli.paths import ReadSettings
from hsa_pyg.cli.tables import draw_tree
from hsa_pyg.converters import from_document
from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.nn import HSATransformer

TEXT = "It rained. We read [red]books[/red].\n\nThen the sun came."


@pytest.fixture
def inspect():
    """What is printed of a path, each run of spaces as one."""

    def inspect(path, **options):
        out = io.StringIO()
        console = Console(file=out, width=120)
        inspect_path(path, ReadSettings(), console=console, **options)
        return [" ".join(line.split()) for line in out.getvalue().splitlines()]

    return inspect


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "rain.txt"
    path.write_text(TEXT)
    return path


def test_the_shape_of_a_document(inspect, document):
    lines = inspect(document)
    assert "document 1" in lines
    assert "paragraph 2" in lines
    assert "sentence 3" in lines
    assert "token 19 19" in lines
    assert "levels 4" in lines
    assert "nodes by level 1, 2, 3, 19" in lines
    assert "largest family 11, in sentence 1" in lines
    assert "only children 1, at most 1 in a row" in lines
    # 2 paragraphs, 2 and 1 sentences, 3, 11 and 5 tokens.
    pairs = 4 + 4 + 1 + 9 + 121 + 25
    assert f"pairs {pairs}; flat attention has 361, 2.2 times as many" in lines


def test_the_tree_is_folded_beyond_its_limits(inspect, document):
    lines = inspect(document, depth=3, max_children=1)
    assert "document 0 It rained. We read [red]books[/red]. Then the sun came." in (
        line.replace("└── ", "").replace(" 19 leaves", "") for line in lines
    )
    assert "│ ├── sentence 0 It rained. 3 leaves" in lines
    assert "│ │ └── ... 3 children" in lines
    assert "│ └── ... 1 more" in lines
    assert "└── ... 1 more" in lines
    assert any("token 0 It" in line for line in inspect(document, depth=4))


def test_a_tree_of_any_depth_is_drawn():
    signal = from_document("<ul><li>" * 100 + "Rain.", format="html")
    tree = draw_tree(signal, depth=1000, max_children=3)
    out = io.StringIO()
    Console(file=out, width=4000).print(tree)
    assert out.getvalue().count("item") == 100


def test_what_was_left_out_is_told(inspect, tmp_path):
    (tmp_path / "a.html").write_text("<p>Rain.<img src='missing.png'>")
    lines = inspect(tmp_path / "a.html")
    (row,) = [line for line in lines if line.endswith(" 1") and "picture" in line]
    assert row


def test_names_and_texts_cannot_paint_the_terminal(inspect, tmp_path):
    path = tmp_path / "a\n\x1b[31m[bold].txt"
    path.write_text("red \u202e[blink]text")
    printed = "\n".join(inspect(path))
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "[blink]text" in printed
    assert r"a\n\x1b[31m[bold].txt" in printed


def test_a_folder_of_documents_has_a_row_for_each(inspect, tmp_path):
    (tmp_path / "a.txt").write_text("Rain.")
    (tmp_path / "b.txt").write_text("It rained. It did.")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "style.css").write_text("a {}")
    lines = inspect(tmp_path)
    assert "0 a.txt 4 5 2 2 0.7" in lines
    assert any(line.startswith("1 b.txt 4") for line in lines)
    assert any(line.startswith("all 2 signals") for line in lines)
    assert "Leaves: 8 token" in lines
    assert any("bad.txt" in line and "is not utf-8" in line for line in lines)
    assert "No converter: 1 of .css" in lines
    assert "sentence 2" in inspect(tmp_path, sample=1)
    with pytest.raises(SettingsError, match="has the samples 0 to 2, not 7"):
        inspect(tmp_path, sample=7)
    with pytest.raises(SettingsError, match="holds 3 signals, and a page shows one"):
        inspect(tmp_path, html=tmp_path / "page.html")


def test_a_folder_of_pages_is_a_website(inspect, tmp_path):
    (tmp_path / "a.html").write_text("<p>See <a href='b.html'>b</a>.")
    (tmp_path / "b.html").write_text("<p>Seen.")
    assert "page 2" in inspect(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match=r"nothing in .* that can be converted"):
        inspect(tmp_path / "empty")


def test_an_unknown_format_is_refused_before_the_files_are_read(inspect, tmp_path):
    (tmp_path / "a.txt").write_text("Rain.")
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(SettingsError, match=r"documnts is not known: .*documents"):
            inspect(path, kind="documnts")


def test_what_is_no_page_of_a_website_is_told_and_can_be_seen(inspect, tmp_path):
    (tmp_path / "a.html").write_text("<p>One.")
    (tmp_path / "b.txt").write_text("Two.")
    (tmp_path / "c.md").write_text("Three.")
    said = " ".join(inspect(tmp_path))
    # Before the tree, where it is read.
    assert said.index("read as a website") < said.index("page 1")
    assert "--format documents takes each file" in said
    assert "are left out: 1 of text, 1 of markdown." in said
    said = " ".join(inspect(tmp_path, kind="documents"))
    assert "all 3 signals" in said
    assert "website" not in said
    (tmp_path / "b.txt").unlink()
    (tmp_path / "c.md").unlink()
    assert "left out" not in " ".join(inspect(tmp_path))
    assert "Note" not in " ".join(inspect(tmp_path, kind="website"))


def test_a_long_document_leaves_room_for_its_summary(inspect, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(["One two three four five. Six. Seven." * 5] * 40))
    assert len(inspect(path)) < 100
    assert len(inspect(path, depth=4, max_children=20)) > 200


def test_a_page_that_would_be_too_large_stops_before_anything_is_printed(
    inspect, document, tmp_path
):
    with pytest.raises(
        SettingsError, match=r"\(--max-tokens\).* or raise --max-leaves"
    ):
        inspect(document, html=tmp_path / "page.html", max_leaves=3)


def test_saved_signals(inspect, tmp_path):
    data = list(FakeNestedDataset(num_samples=60))
    torch.save(data, tmp_path / "data.pt")
    lines = inspect(tmp_path / "data.pt")
    assert "... 20 more" in lines
    assert any(line.startswith("all 60 signals") for line in lines)
    assert "--sample 0 to 59 shows one of them." in lines
    count = data[7].hierarchy.num_leaves
    lines = inspect(tmp_path / "data.pt", sample=7)
    assert any(line.startswith("all ") and f" {count}" in line for line in lines)


def test_a_page_with_the_attention_of_a_model(inspect, document, tmp_path):
    signal = from_document(TEXT)
    model = HSATransformer.from_schema(
        signal.schema, 2, channels=8, heads=2, vocab_sizes={"token": 32_768}
    )
    run = TrainedRun("run", model.eval(), ["neg", "pos"], None, None)
    html = tmp_path / "page.html"
    lines = inspect(document, html=html, run=run)
    chances = model(signal)[0].softmax(0).detach()
    best = int(chances.argmax())
    assert f"{run.classes[best]} {float(chances[best]):.3f}" in lines
    assert f"Page: {html}" in lines
    assert '"weights":{"layers":' in html.read_text()
    with pytest.raises(SettingsError, match="raise --max-leaves"):
        inspect(document, html=html, max_leaves=3)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.txt"], 1, "hsa-pyg: There is no file or folder 'missing.txt'."),
        (["bad.txt"], 1, "hsa-pyg: Document 'bad.txt' is not utf-8"),
        (["a.txt", "--sample", "3"], 1, "has the samples 0 to 0, not 3"),
        (["a.txt", "--checkpoint", "."], 1, "is no folder of hsa-pyg train"),
        (["a.txt", "--depth", "0"], 2, "--depth"),
    ],
)
def test_errors_are_one_line(monkeypatch, tmp_path, capsys, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Rain.")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    monkeypatch.setattr(sys, "argv", ["hsa-pyg", "inspect", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    if code == 1:
        assert error.count("\n") == 1
