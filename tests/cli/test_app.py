import io
import json
import sys

import pytest
import torch
from typer.testing import CliRunner

import hsa_pyg
from hsa_pyg.cli import SettingsError, main
from hsa_pyg.cli.app import app

SMALL = ["--channels", "8", "--heads", "2", "--layers", "1", "--batch-size", "32"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(app, list(arguments), catch_exceptions=False)

    return run


def test_info_tells_versions_devices_and_backends(run):
    output = run("info").output
    assert f"hsa-pyg          {hsa_pyg.__version__}" in output
    assert torch.__version__ in output
    for name in ("torch-scatter", "pyg-lib", "triton", "devices", "torch threads"):
        assert name in output
    assert "reference, torch" in output


@pytest.mark.parametrize("attention", ["hsa", "flat", "none"])
def test_train_learns_and_writes_its_run(run, tmp_path, attention):
    done = run(
        "train",
        "fake",
        "--attention",
        attention,
        "--epochs",
        "4",
        "--lr",
        "0.02",
        *SMALL,
    )
    assert done.exit_code == 0
    out = tmp_path / "runs" / f"fake-{attention}-0"
    assert {path.name for path in out.iterdir()} == {
        "best.ckpt",
        "last.ckpt",
        "history.json",
        "result.json",
        "settings.json",
    }
    result = json.loads((out / "result.json").read_text())
    assert result["test_accuracy"] > 0.8
    assert f"{result['test_accuracy']:.4f}" in done.output
    assert f" {result['best_epoch'] + 1} of 4 (validation accuracy" in done.output
    settings = json.loads((out / "settings.json").read_text())
    assert settings["attention"] == attention
    assert settings["channels"] == 8


def test_a_seed_repeats_a_run_and_another_does_not(run, tmp_path):
    losses = []
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        run("train", "fake", "--epochs", "1", "--seed", seed, "--out", folder, *SMALL)
        (row,) = json.loads((tmp_path / folder / "history.json").read_text())
        losses.append(row["train/loss"])
    assert losses[0] == losses[1] != losses[2]


def test_a_run_is_resumed_with_its_settings_only(run):
    begin = ["train", "fake", "--epochs", "1", "--out", "run", *SMALL]
    run(*begin)
    with pytest.raises(FileExistsError, match="--resume"):
        run(*begin)
    assert run(*begin, "--resume").exit_code == 0
    with pytest.raises(SettingsError, match=r"lr 0\.001 -> 0\.5"):
        run(*begin, "--resume", "--lr", "0.5")
    with pytest.raises(FileNotFoundError, match="no training run to resume in other"):
        run("train", "fake", "--resume", "--out", "other")


@pytest.mark.parametrize(
    "option",
    [
        ["--precision", "bf16"],
        ["--accumulate", "2"],
        ["--clip", "0.01"],
        ["--warmup", "0.5"],
        ["--schedule", "linear"],
    ],
)
def test_how_it_is_trained_is_an_option(run, tmp_path, option):
    begin = ["train", "fake", "--epochs", "2", *SMALL]
    run(*begin, "--out", "usual")
    run(*begin, "--out", "other", *option, "--device", "cpu")
    usual, other = (
        json.loads((tmp_path / name / "history.json").read_text())
        for name in ("usual", "other")
    )
    assert usual[1]["train/loss"] != other[1]["train/loss"]


def test_settings_that_came_later_are_those_of_older_runs(run, tmp_path):
    begin = ["train", "fake", "--epochs", "1", "--out", "run", *SMALL]
    run(*begin)
    path = tmp_path / "run" / "settings.json"
    settings = json.loads(path.read_text())
    for later in ("precision", "accumulate", "clip", "warmup", "schedule"):
        del settings[later]
    path.write_text(json.dumps(settings))
    assert run(*begin, "--resume").exit_code == 0
    with pytest.raises(SettingsError, match=r"clip 1\.0 -> 2\.0"):
        run(*begin, "--resume", "--clip", "2")


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_settings_of_a_run_that_are_damaged_are_named(run, tmp_path, text):
    begin = ["train", "fake", "--epochs", "1", "--out", "run", *SMALL]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text(text)
    with pytest.raises(SettingsError, match=r"'run/settings\.json' does not hold"):
        run(*begin, "--resume")


def test_a_folder_is_printed_as_it_is_named(run):
    done = run("train", "fake", "--epochs", "1", "--out", "runs [red]", *SMALL)
    assert "runs [red]" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reviews"], "no data set 'reviews'; these are known: movie-reviews, fake"),
        (["fake", "--heads", "5"], "5 heads do not divide 64 channels"),
        (["fake", "--train-size", "999"], "120 training signals, not 999"),
        (["fake", "--max-tokens", "10"], "has no documents to cut"),
        (["fake", "--warmup", "1"], r"--warmup is a part below 1, got 1\.0"),
        (["fake", "--device", "cpu", "--precision", "16"], "Processors have no mixed"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(run, arguments, message):
    with pytest.raises(SettingsError, match=message):
        run("train", *arguments)


def test_an_unknown_attention_is_refused(run):
    done = run("train", "fake", "--attention", "linear")
    assert done.exit_code == 2
    assert "linear" in done.output


def test_a_console_of_few_characters_shows_escapes(monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="cp1252") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])

    def command():
        print("caf\xe9 \u0436")
        raise OSError("\u0436")

    monkeypatch.setattr("hsa_pyg.cli.app.app", command)
    with pytest.raises(SystemExit):
        main()
    for stream, text in zip(
        streams, (b"caf\xe9 \\u0436", b"hsa-pyg: \\u0436"), strict=True
    ):
        stream.flush()
        assert stream.buffer.getvalue().strip() == text


def test_main_ends_with_a_sentence_instead_of_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["hsa-pyg", "train", "reviews"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err.startswith("hsa-pyg: There is no data set")


def test_a_device_that_is_not_there_is_one_sentence(run):
    absent = "cuda" if sys.platform == "darwin" else "mps"
    # Before any data are looked for.
    with pytest.raises(SettingsError, match=f"no '{absent}' here: --device takes auto"):
        run("train", "fake", "--epochs", "1", "--device", absent, *SMALL)
    with pytest.raises(SettingsError, match="'cdua' is none of auto, cpu, gpu, cuda"):
        run("train", "no-such-data", "--device", "cdua")


@pytest.mark.parametrize("lr", ["-1", "0", "nan", "inf"])
def test_a_learning_rate_is_above_zero_and_finite(run, lr):
    with pytest.raises(SettingsError, match="--lr must be above 0 and finite"):
        run("train", "no-such-data", f"--lr={lr}")
