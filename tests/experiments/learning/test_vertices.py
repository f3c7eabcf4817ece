import json
import re

import pytest
from typer.testing import CliRunner

from hsa_pyg.cli.app import app
from hsa_pyg.experiments.learning.vertex_settings import (
    VertexSettings,
    complete_settings,
)
from hsa_pyg.experiments.learning.vertices import Vertices
from tests.experiments.learning import small_sources


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs an experiment in an empty folder, and gives its results."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSA_PYG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path / "cache"))

    def run(name, **settings):
        asked = ["experiment", name, "--seeds", "1", "--jobs", "0"]
        settings = {"channels": 8, "heads": 2, "epochs": 2, **settings}
        for key, value in settings.items():
            asked += ["--set", f"{key}={value}"]
        done = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        paths = sorted((tmp_path / "docs" / "results" / name).glob("*.json"))
        return [json.loads(path.read_text()) for path in paths]

    return run


def check(result):
    final, history = result["final"], result["history"]
    assert 0.0 <= final["test_accuracy"] <= 1.0
    assert 0.0 <= final["test_macro_f1"] <= 1.0
    assert final["val_accuracy"] == history["val_accuracy"][final["best_epoch"]]
    assert final["val_accuracy"] == max(history["val_accuracy"])
    assert len(history["epoch"]) == final["epochs"] == 2
    assert result["facts"]["parameters"] > 0
    assert result["facts"]["memory of training"] >= 0


def test_cora_from_the_files_to_the_page(run, tmp_path):
    small_sources.write_cora(tmp_path / "data")
    found = run("cora")
    assert len(found) == 6
    for result in found:
        check(result)
        attends = result["configuration"]["model"] != "none"
        assert (result["attention_flops"] > 0) == attends
    CliRunner().invoke(app, ["report", "cora"], catch_exceptions=False)
    page = (tmp_path / "docs" / "results.md").read_text()
    assert "treerandom" in page
    assert "| processor s an epoch |" in page
    rows = re.findall(r"^\| (\S+) \| 1 \| 0\.", page, re.MULTILINE)
    assert len(rows) == 6
    assert "| setting | seeds |" in page
    told = "--set channels=8 --set heads=2 --set epochs=2"
    assert f"`hsa-pyg experiment cora --seeds 1 {told}`" in page


def test_a_website_with_and_without_its_links(run, tmp_path):
    small_sources.write_gimp_manual(tmp_path / "data")
    found = run("website", task="gimp-manual", model="hsa,words")
    configurations = [one["configuration"] for one in found]
    told = [(one["model"], one["links"]) for one in configurations]
    assert sorted(told) == [(a, b) for a in ("hsa", "words") for b in ("none", "sage")]
    for result in found:
        check(result)
        facts = result["facts"]
        assert facts["classes"] == {"gimp-tool": 12, "gimp-view": 12, "other": 1}
        assert facts["links"] == 25


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("cora", "hsa"),
        ("cora", "none"),
        ("gimp-manual", "flat"),
        ("gimp-manual", "words"),
    ],
)
def test_work_grows_with_the_epochs(task, model):
    def work(**settings):
        return Vertices().work(
            complete_settings(VertexSettings(task=task, model=model, **settings))
        )

    assert 0 < work(epochs=2) == work(epochs=6) / 3
    assert work(channels=128) > work(channels=64)


def test_a_dry_run_estimates_every_run_without_its_data(run, tmp_path):
    asked = ["experiment", "website", "--seeds", "1", "--dry-run"]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "14 runs, 0 of them finished before." in done.output
    assert done.output.count("(from its FLOPs)") == 14
    assert not (tmp_path / "docs").exists()
