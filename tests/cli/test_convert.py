import json
import re
import subprocess
import sys
import zipfile

import pytest
import torch
from torch_geometric.loader import DataLoader
from typer.testing import CliRunner

import hsa_pyg
from hsa_pyg.cli import SettingsError, convert
from hsa_pyg.cli.app import app
from hsa_pyg.cli.paths import ReadSettings


@pytest.fixture
def run(monkeypatch):
    """Run the command; what it prints in one string."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        return CliRunner().invoke(
            app, ["convert", *map(str, arguments)], catch_exceptions=False
        )

    return run


@pytest.fixture
def corpus(tmp_path):
    """A folder of good files and of every kind of bad ones."""
    from PIL import Image

    folder = tmp_path / "corpus"
    for name in ("neg", "pos"):
        (folder / name).mkdir(parents=True)
    (folder / "neg" / "one.txt").write_text("The film was bad. Bad, bad film.")
    (folder / "pos" / "two.md").write_text("# Good\n\nThe film was good.")
    (folder / "pos" / "page.html").write_text(
        "<p>The film.<img src='still.png' alt='A still'>"
    )
    Image.new("RGB", (20, 20), "red").save(folder / "pos" / "still.png")
    (folder / "pos" / "new\nline.txt").write_text("The end.")
    (folder / "neg" / "empty.txt").write_bytes(b"")
    (folder / "neg" / "garbage.txt").write_bytes(bytes(range(256)))
    (folder / "neg" / "broken.png").write_bytes(b"\x89PNG broken")
    (folder / "neg" / "nowhere.txt").symlink_to("missing")
    (folder / "neg" / "loop").symlink_to("..")
    with zipfile.ZipFile(folder / "neg" / "book.epub", "w") as book:
        book.writestr("mimetype", "application/epub+zip")
    (folder / "neg" / "script.js").write_text("1")
    return folder


FAILED = ("empty.txt", "garbage.txt", "broken.png", "nowhere.txt", "loop", "book.epub")


def test_it_goes_on_past_bad_files_and_lists_them(run, corpus, tmp_path):
    out = tmp_path / "out.pt"
    done = run(corpus, out)
    assert done.exit_code == 0
    signals = torch.load(out, weights_only=True)
    assert [signal.source for signal in signals] == [
        "neg/one.txt",
        "pos/new\nline.txt",
        "pos/page.html",
        "pos/still.png",
        "pos/two.md",
    ]
    for name in FAILED:
        assert name in done.output
    assert re.search(r"files that failed\s+6\b", done.output)
    assert ".js" in done.output
    assert all(signal.validate() for signal in signals)
    schemas = [signal.schema for signal in signals]
    assert all(schema == schemas[0] for schema in schemas)
    for batch in DataLoader(signals, batch_size=3, shuffle=True):
        assert batch.hierarchy.num_trees == batch.num_graphs


def test_strict_fails_but_writes(run, corpus, tmp_path):
    assert run(corpus, tmp_path / "out.pt", "--strict").exit_code == 1
    assert (tmp_path / "out.pt").exists()
    good = corpus / "neg" / "one.txt"
    assert run(good, tmp_path / "one.pt", "--strict").exit_code == 0


def test_a_vocabulary_of_the_words_is_written_beside(run, corpus, tmp_path):
    from tokenizers import Tokenizer

    out = tmp_path / "out.pt"
    assert run(corpus, out, "--tokenizer", "words", "--labels", "folder").exit_code == 0
    tokenizer = Tokenizer.from_file(str(tmp_path / "out.tokenizer.json"))
    signals = torch.load(out, weights_only=True)
    first = signals[0]
    text = first["document"].text[0]
    ids = tokenizer.encode(text).ids
    assert first["token"].x.tolist() == ids
    assert tokenizer.token_to_id("film") in ids
    assert json.loads((tmp_path / "out.classes.json").read_text()) == ["neg", "pos"]
    assert [int(signal.y) for signal in signals] == [0, 1, 1, 1, 1]
    # The same tokenizer gives the same ids to other files.
    again = tmp_path / "again.pt"
    run(corpus, again, "--tokenizer", tmp_path / "out.tokenizer.json")
    assert torch.equal(
        torch.load(again, weights_only=True)[0]["token"].x, first["token"].x
    )


def test_characters_without_texts_cut_short(run, corpus, tmp_path):
    source, out = corpus / "neg" / "one.txt", tmp_path / "out.pt"
    options = ["--tokenizer", "characters", "--no-text", "--max-tokens", "5"]
    done = run(source, out, *options)
    (signal,) = torch.load(out, weights_only=True)
    assert signal["token"].num_nodes == 5
    assert "text" not in signal["document"]
    assert "tokens beyond max_tokens" in done.output


def test_a_whole_site_is_one_signal(run, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.html").write_text("<p>See <a href='b.html'>b</a>.")
    (site / "b.html").write_text("<p>Seen.")
    run(site, tmp_path / "out.pt", "--as", "website", "--tokenizer", "words")
    (signal,) = torch.load(tmp_path / "out.pt", weights_only=True)
    assert signal["page"].path == ["a.html", "b.html"]
    assert (tmp_path / "out.tokenizer.json").exists()
    with pytest.raises(SettingsError, match="is no folder, and a website is one"):
        run(site / "a.html", tmp_path / "b.pt", "--as", "website")


def test_pictures_alone_stay_pictures(run, corpus, tmp_path):
    (corpus / "neg" / "broken.png").unlink()
    run(corpus / "pos" / "still.png", tmp_path / "out.pt")
    (signal,) = torch.load(tmp_path / "out.pt", weights_only=True)
    assert signal.hierarchy.num_leaves == 4
    assert "document" not in signal.node_types


def test_the_same_files_give_the_same_bytes(run, corpus, tmp_path):
    for name in ("a.pt", "b.pt"):
        run(corpus, tmp_path / name)
    first, second = (
        torch.load(tmp_path / name, weights_only=True) for name in ("a.pt", "b.pt")
    )
    for one, other in zip(first, second, strict=True):
        assert one.schema == other.schema
        for kind in one.schema.leaf_types:
            assert torch.equal(one[kind].x, other[kind].x)


def test_nothing_is_overwritten_unless_asked(run, corpus, tmp_path):
    out = tmp_path / "out.pt"
    out.write_text("mine")
    with pytest.raises(FileExistsError, match="--force"):
        run(corpus, out)
    assert out.read_text() == "mine"
    assert run(corpus, out, "--force").exit_code == 0
    (tmp_path / "new.tokenizer.json").write_text("mine")
    with pytest.raises(FileExistsError, match=r"new\.tokenizer\.json"):
        run(corpus, tmp_path / "new.pt", "--tokenizer", "words")


def test_what_was_written_into_the_folder_is_no_document_of_it(run, tmp_path):
    (tmp_path / "a.txt").write_text("The film. The end.")
    out = tmp_path / "out.pt"
    for _ in range(2):
        run(tmp_path, out, "--tokenizer", "words", "--labels", "folder", "--force")
        assert len(torch.load(out, weights_only=True)) == 1


@pytest.mark.parametrize("where", ["save", "replace"])
def test_an_interruption_leaves_no_half_of_a_file(
    run, corpus, tmp_path, monkeypatch, where
):
    def interrupted(*arguments):
        if where == "save":
            arguments[1].write_bytes(b"half")
        raise KeyboardInterrupt

    module = convert.torch if where == "save" else convert.os
    monkeypatch.setattr(module, where, interrupted)
    out = tmp_path / "out" / "out.pt"
    done = run(corpus, out, "--tokenizer", "words")
    assert done.exit_code == 130
    assert list(out.parent.iterdir()) == []


def test_nothing_to_convert_is_an_error(run, tmp_path):
    (tmp_path / "a.css").write_text("a {}")
    (tmp_path / "b.txt").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"failed: 1; that no converter knows: 1"):
        run(tmp_path, tmp_path / "out.pt")
    assert not (tmp_path / "out.pt").exists()


def test_signals_that_do_not_go_together_are_named(run, tmp_path):
    import networkx

    for name, size in (("a", 2), ("b", 3)):
        graph = networkx.cycle_graph(4)
        for node in graph:
            graph.nodes[node].update({f"f{i}": 1.0 for i in range(size)})
        networkx.write_graphml(graph, tmp_path / f"{name}.graphml")
    with pytest.raises(SettingsError, match=r"do not go together: .*graphml"):
        run(tmp_path, tmp_path / "out.pt")


def test_an_unknown_tokenizer_is_refused(run, corpus, tmp_path):
    with pytest.raises(SettingsError, match="none of hashed, characters and words"):
        run(corpus, tmp_path / "out.pt", "--tokenizer", "bpe")
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(SettingsError, match="is no file of tokenizers"):
        run(corpus, tmp_path / "out.pt", "--tokenizer", tmp_path / "t.json")


def test_from_the_shell(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    command = [sys.executable, "-m", "hsa_pyg"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert version.stdout == f"hsa-pyg {hsa_pyg.__version__}\n"
    out = tmp_path / "out.pt"
    done = subprocess.run(
        [*command, "convert", corpus, out], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "garbage.txt" in done.stdout
    again = subprocess.run(
        [*command, "convert", corpus, out], capture_output=True, text=True
    )
    assert again.returncode == 1
    assert again.stderr.startswith("hsa-pyg: ")
    assert again.stderr.count("\n") == 1
    look = subprocess.run(
        [*command, "inspect", out, "--sample", "0"], capture_output=True, text=True
    )
    assert "The film was bad." in look.stdout


@pytest.mark.parametrize("out", ["folder", "file.txt/out.pt", "folder/none\0.pt"])
def test_what_cannot_be_written_is_told_before_the_work(tmp_path, out, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.txt").write_text("One.")
    monkeypatch.setattr("hsa_pyg.cli.convert._convert", lambda *given: 1 / 0)
    with pytest.raises((OSError, ValueError)):
        convert.convert_path(tmp_path, tmp_path / out, ReadSettings(), force=True)
    assert not list(tmp_path.rglob("*.part*"))
