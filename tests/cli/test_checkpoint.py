import json

import pytest
import torch
from typer.testing import CliRunner

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.app import app
from hsa_pyg.cli.checkpoint import TrainedRun, load_run
from hsa_pyg.converters import from_document
from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.nn import HierarchicalPosition, HSATransformer


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run on the fake data set."""
    out = tmp_path_factory.mktemp("runs") / "fake"
    small = ["--channels", "8", "--heads", "2", "--layers", "1", "--lr", "0.02"]
    done = CliRunner().invoke(
        app, ["train", "fake", "--epochs", "2", "--out", str(out), *small]
    )
    assert done.exit_code == 0
    return out


def test_the_model_of_the_best_epoch_is_back(trained, tmp_path):
    run = load_run(trained, tmp_path)
    assert run.classes == ["class 0", "class 1"]
    assert run.tokenizer is None
    assert not run.model.training
    signals = FakeNestedDataset(num_samples=200)[160:]
    right = sum(
        int(run.model(signal).argmax()) == int(signal.y) for signal in list(signals)
    )
    result = json.loads((trained / "result.json").read_text())
    assert right / 40 == pytest.approx(result["test_accuracy"])


def test_a_run_on_ones_own_texts_knows_their_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = tmp_path / "mine.tsv"
    words = {"dry": "The sun is out.", "wet": "It rained all day."}
    rows = [f"{name}\t{i}. {words[name]}" for i in range(12) for name in words]
    texts.write_text("\n".join(rows))
    begin = ["train", "mine.tsv", "--epochs", "2", "--lr", "0.02", "--channels", "8"]
    begin += ["--heads", "2", "--layers", "1"]
    done = CliRunner().invoke(app, begin, catch_exceptions=False)
    assert "Texts: train 20, val 2, test 2. Classes: dry, wet." in done.output
    out = tmp_path / "runs" / "mine-hsa-0"
    splits = json.loads((out / "splits.json").read_text())
    places = {place for part in splits.values() for place in part}
    assert places == {f"line {number}" for number in range(1, 25)}
    # From wherever the command is called.
    monkeypatch.chdir(out)
    run = load_run(out, tmp_path)
    signal = from_document("9. It rained all day.", tokenizer=run.tokenizer)
    assert run.classes[run.model(signal).argmax()] == "wet"
    inspected = tmp_path / "note.txt"
    inspected.write_text("9. The sun is out.")
    again = CliRunner().invoke(app, ["inspect", str(inspected), "--checkpoint", "."])
    assert again.output.index("dry") < again.output.index("wet")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, [*begin, "--resume"]).exit_code == 0
    texts.write_text("\n".join([*rows[:-1], "wet\tIt poured."]))
    changed = r"mine\.tsv' have changed since the run in .* was begun: put back"
    with pytest.raises(SettingsError, match=changed):
        load_run(out, tmp_path)
    with pytest.raises(SettingsError, match=changed):
        CliRunner().invoke(app, [*begin, "--resume"], catch_exceptions=False)
    texts.unlink()
    with pytest.raises(SettingsError, match=r"mine\.tsv' is not there: put it back"):
        load_run(out, tmp_path)


def test_runs_of_older_versions_are_read(trained, tmp_path):
    for name in ("best.ckpt", "last.ckpt", "history.json"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    settings = json.loads((trained / "settings.json").read_text())
    for name in ("text_column", "label_column", "digest"):
        del settings[name]
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert load_run(tmp_path, tmp_path).classes == ["class 0", "class 1"]
    small = ["--channels", "8", "--heads", "2", "--layers", "1", "--lr", "0.02"]
    begin = ["train", "fake", "--epochs", "2", "--out", str(tmp_path), *small]
    done = CliRunner().invoke(app, [*begin, "--resume"], catch_exceptions=False)
    assert done.exit_code == 0


def test_signals_of_other_types_are_refused(trained, tmp_path):
    run = load_run(trained, tmp_path)
    run.check(FakeNestedDataset(num_samples=1)[0], "a signal")
    with pytest.raises(SettingsError, match=r"a.txt has 2 leaves of type 'token'"):
        run.check(from_document("Rain."), "a.txt")


def test_parents_without_a_domain_are_refused():
    document = from_document("Rain.")
    page = from_document("<ul><li>Rain.</ul>", format="html")
    model = HSATransformer.from_schema(
        document.schema,
        2,
        channels=8,
        heads=2,
        vocab_sizes={"token": 40_000},
        position=HierarchicalPosition(
            dict.fromkeys(document.schema.internal_types, "sequence"), 8
        ),
    )
    run = TrainedRun("run", model, ["a", "b"], None, None)
    run.check(document, "a.txt")
    with pytest.raises(SettingsError, match=r"in nodes of type 'block'.*--format text"):
        run.check(page, "a.html")


def test_other_folders_are_no_runs(trained, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no settings\.json"):
        load_run(tmp_path, tmp_path)
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"has no best.ckpt"):
        load_run(tmp_path, tmp_path)
    (tmp_path / "best.ckpt").write_bytes(b"")
    with pytest.raises(SettingsError, match="not what this version"):
        load_run(tmp_path, tmp_path)
    settings = json.loads((trained / "settings.json").read_text())
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(SettingsError, match="does not fit the settings"):
        load_run(tmp_path, tmp_path)
    torch.save(
        {"state_dict": {"model.head.bias": torch.zeros(2)}}, tmp_path / "best.ckpt"
    )
    with pytest.raises(SettingsError, match=r"does not fit .* train the model again"):
        load_run(tmp_path, tmp_path)
