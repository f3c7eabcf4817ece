from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.app import app
from hsa_pyg.experiments.learning.contrasts import (
    contrasts_table,
    find_contrasts,
    write_contrasts,
)
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.vertex_settings import VertexSettings
from hsa_pyg.experiments.learning.vertex_settings import (
    complete_settings as complete_vertex_settings,
)
from hsa_pyg.experiments.records import Record

ROOT = Path(__file__).parents[3]


@pytest.fixture
def write(tmp_path):
    """A function that writes the results file of a run."""

    def write(
        name,
        setting,
        scores,
        flops=100,
        seconds=1.0,
        score="accuracy",
        on="a",
        test=10,
        **told,
    ):
        if told["task"] == "cora":
            configuration = asdict(complete_vertex_settings(VertexSettings(**told)))
            experiment, facts = "vertices", {}
        else:
            configuration = asdict(complete_settings(LearningSettings(**told)))
            experiment = "learning"
            facts = {"attention_flops_per_example": flops, "score": score}
            facts |= {"train": 20, "test": test}
        for seed, value in enumerate(scores):
            Record(
                experiment=experiment,
                setting=setting,
                seed=seed,
                configuration=configuration,
                environment={"processor": on},
                seconds=1.0,
                peak_memory=1,
                attention_flops=2 * flops,
                history=[{"seconds": seconds, "processor_seconds": seconds}] * 2,
                final={f"test_{score}": value},
                facts=facts,
            ).write(tmp_path / name / f"{setting}-{seed}.json")

    return write


def test_both_attentions_are_compared_where_all_else_is_alike(write, tmp_path):
    imdb = {"task": "imdb", "features": "glove"}
    write("imdb", "imdb-hsa", [0.8, 0.9], 10, 2.0, model="hsa", **imdb)
    write("imdb", "imdb-flat", [0.8, 0.6], 40, 8.0, model="flat", **imdb)
    write("imdb", "imdb-deepset", [0.9], model="deepset", **imdb)
    write("imdb", "imdb-hsa-random", [0.1], model="hsa", tree="random", **imdb)
    write("imdb", "imdb-flat-lr0.5", [0.5], model="flat", lr=0.5, **imdb)
    (one,) = find_contrasts(tmp_path)
    assert one.title == "imdb"
    assert (one.ours, one.theirs) == pytest.approx((0.85, 0.7))
    # Of the mean error 0.3: nothing, and 0.3 less.
    assert one.change.mean == pytest.approx(-0.5)
    assert (one.change.error, one.change.seeds) == (pytest.approx(0.5), 2)
    assert (one.flops, one.seconds) == (0.25, 0.25)
    row = "| imdb | accuracy | 0.850 | 0.700 | -50.0 ± 50.0 % | 2 | 0.25 | 0.25 |"
    assert row in contrasts_table([one])


def test_cut_texts_are_compared_with_whole_and_with_cut_ones(write, tmp_path):
    task = {"task": "movie-reviews"}
    write("reviews", "a-hsa", [0.8], model="hsa", **task)
    write("reviews", "a-hsa-512", [0.7], model="hsa", max_tokens=512, **task)
    write("reviews", "a-hsa-9", [0.7], model="hsa", max_tokens=9, **task)
    write("reviews", "a-flat-512", [0.6], model="flat", max_tokens=512, **task)
    write("reviews", "a-flat-glove", [0.6], model="flat", features="glove", **task)
    write("reviews", "a-hsa-glove", [0.6], model="hsa", features="glove", **task)
    titles = [one.title for one in find_contrasts(tmp_path)]
    assert titles == [
        "reviews: movie-reviews, features learned, softmax over 512 tokens",
        "reviews: movie-reviews, features learned, both over 512 tokens",
        "reviews: movie-reviews, features glove",
    ]


def test_folds_and_other_test_sets_are_not_compared(write, tmp_path):
    task = {"task": "movie-reviews"}
    for fold in range(2):
        name = f"movie-reviews-{{}}-fold{fold}"
        write("reviews", name.format("hsa"), [0.8], model="hsa", fold=fold, **task)
        write("reviews", name.format("flat"), [0.7], model="flat", fold=fold, **task)
    write("reviews", "movie-reviews-hsa", [0.5, 0.5], model="hsa", **task)
    write("reviews", "movie-reviews-flat", [0.4], test=5, model="flat", **task)
    (one,) = find_contrasts(tmp_path)
    assert (one.ours, one.theirs) == pytest.approx((0.8, 0.7))


def test_what_one_side_alone_has_is_a_difference(write, tmp_path):
    task = {"task": "imdb", "features": "glove"}
    write("imdb", "imdb-hsa", [0.8], model="hsa", vectors="mine.txt", **task)
    write("imdb", "imdb-hsa-hidden9", [0.8], model="hsa", hidden=9, **task)
    write("imdb", "imdb-flat", [0.7], model="flat", **task)
    assert find_contrasts(tmp_path) == []
    write("imdb", "imdb-hsa-hidden128", [0.9], model="hsa", hidden=128, **task)
    assert [one.ours for one in find_contrasts(tmp_path)] == [0.9]


def test_phrases_that_are_not_there_are_like_phrases_that_are_not_learned(
    write, tmp_path
):
    sst = {"task": "sst", "features": "glove"}
    write("sst", "sst-hsa", [0.9], model="hsa", **sst)
    write("sst", "sst-hsa-no-phrases", [0.7], model="hsa", phrase_weight=0.0, **sst)
    write("sst", "sst-flat", [0.8], model="flat", **sst)
    write("sst", "sst-flat-row", [0.6], model="flat", tree="flat", **sst)
    told = {one.title: (one.ours, one.theirs) for one in find_contrasts(tmp_path)}
    assert told == {
        "sst, phrase_weight 1.0, softmax's positions along the tree": (0.9, 0.8),
        "sst, softmax's positions in a row": (0.7, 0.6),
    }


def test_times_of_unlike_processors_are_not_compared(write, tmp_path):
    write("imdb", "imdb-hsa", [0.8], task="imdb", model="hsa")
    write("imdb", "imdb-flat", [0.7], task="imdb", model="flat", on="another")
    (one,) = find_contrasts(tmp_path)
    assert (one.flops, one.seconds) == (1.0, None)
    assert contrasts_table([one]).endswith("| 1 | 1 |  |")


def test_molecules_are_compared_with_their_messages_and_by_their_score(write, tmp_path):
    for model, value in (("gine-hsa", 1.0), ("none-hsa", 9.0), ("gine-multihead", 2.0)):
        write(
            "molecules",
            f"esol-{model}",
            [value],
            task="esol",
            model=model,
            score="rmse",
        )
    (one,) = find_contrasts(tmp_path)
    assert (one.title, one.score) == ("molecules: esol", "rmse")
    assert one.change.mean == pytest.approx(-0.5)
    assert "| RMSE | 1.000 | 2.000 | -50.0 % | 1 |" in contrasts_table([one])


def test_vertices_of_a_graph_are_compared(write, tmp_path):
    for model, value in (("hsa", 0.9), ("multihead", 0.8), ("performer", 0.1)):
        write("cora", f"cora-{model}", [value], task="cora", model=model)
    write("cora", "cora-hsa-random", [0.2], task="cora", model="hsa", tree="random")
    (one,) = find_contrasts(tmp_path)
    assert one.change.mean == pytest.approx(-0.5)
    assert one.flops == 1.0


def test_without_a_common_seed_there_is_none(write, tmp_path):
    write("imdb", "imdb-hsa", [0.8], task="imdb", model="hsa")
    with pytest.raises(FileNotFoundError, match="no runs of hierarchical and of soft"):
        write_contrasts(tmp_path, tmp_path)
    write("imdb", "imdb-flat", [0.8, 0.7], task="imdb", model="flat")
    (tmp_path / "imdb" / "imdb-flat-0.json").unlink()
    assert find_contrasts(tmp_path) == []


def test_the_command_writes_the_part_and_its_picture(write, tmp_path, monkeypatch):
    write("imdb", "imdb-hsa", [0.8], task="imdb", model="hsa")
    write("imdb", "imdb-flat", [0.7], task="imdb", model="flat")
    (tmp_path / "other").mkdir()
    page = tmp_path / "docs" / "page.md"
    asked = ["report", "--contrasts", "--out", str(tmp_path), "--page", str(page)]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert "contrasts -> " in done.output
    text = page.read_text()
    assert "<!-- hsa-pyg report contrasts: begin" in text
    assert "| imdb | accuracy | 0.800 | 0.700 | -33.3 % | 1 |" in text
    assert (page.parent / "images" / "learning_contrasts.png").exists()
    with pytest.raises(SettingsError, match="over all experiments: leave out NAMES"):
        CliRunner().invoke(app, [*asked, "imdb"], catch_exceptions=False)


def test_the_page_has_the_contrasts_of_the_results_files():
    table = contrasts_table(find_contrasts(ROOT / "docs" / "results"))
    assert table in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
