from dataclasses import asdict, replace

from hsa_pyg.experiments.learning.report import write_report
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.records import Record

ENVIRONMENT = {
    "revision": "0123456789abcdef",
    "dirty": False,
    "processor": "a processor",
    "versions": {"torch": "2.0"},
}


def record(model, seed, accuracy, fold=None, processor=None, **settings):
    task = settings.pop("task", "movie-reviews")
    asked = {"channels": 8, "layers": 2, "heads": 2, "fold": fold, **settings}
    complete = complete_settings(LearningSettings(task=task, model=model, **asked))
    name = f"{task}-{model}-channels8-heads2"
    name += "" if fold is None else f"-fold{fold}"
    rows = [
        {"seconds": 2.0, "train_loss": 0.5, "val_accuracy": 0.5 + i} for i in range(2)
    ]
    for row in rows:
        row |= {} if processor is None else {"processor_seconds": processor}
    return Record(
        **{"experiment": "learning", "seed": seed, "environment": ENVIRONMENT},
        setting=name + "".join(_told(*item) for item in settings.items()),
        configuration=asdict(complete),
        seconds=4.0,
        peak_memory=1_000_000,
        attention_flops=10,
        history=rows,
        final={"test_accuracy": accuracy, "test_macro_f1": accuracy, "best_epoch": 1}
        | {"val_accuracy": 0.5},
        facts={
            **{"train": 1600, "val": 200, "test": 200, "parameters": 1_000},
            **{"parameters_of_encoder": 400, "attention_flops_per_example": 2_500_000},
            **{"train_leaves": 100, "stopped_early": False, "score": "accuracy"},
        },
    )


def _told(key, value):
    name = "-" + key.replace("_", "-")
    return {True: name, False: ""}.get(value, f"{name}{value}")


def test_settings_are_told_apart_and_compared_by_seed(tmp_path, monkeypatch):
    shipped = "experiment: learning\naxes: {task: [movie-reviews]}\nvariants:\n"
    for variant in ("hsa", "flat", "hgt", "segment", "gps, max_tokens: 512"):
        shipped += f"  - {{model: {variant}}}\n"
    (tmp_path / "reviews.yaml").write_text(
        shipped + "  - {model: hsa, features: glove}"
    )
    monkeypatch.setattr("hsa_pyg.experiments.configuration.FOLDERS", (tmp_path,))
    records = [
        *(record("hsa", seed, 0.8 + seed / 100) for seed in range(2)),
        *(record("flat", seed, 0.7 + seed / 100) for seed in range(2)),
        *(record("gps", seed, 0.6, max_tokens=512) for seed in range(2)),
        *(record("segment", seed, 0.75, window=4) for seed in range(2)),
    ]
    text = write_report(records, tmp_path, "reviews")
    assert "## reviews\n\n### movie-reviews" in text
    assert "1,600 training, 200 validation and 200 test signals" in text
    told = "model=hsa,flat,gps,segment --set features=learned --set channels=8"
    told += " --set heads=2 --set window=4"
    assert f"`hsa-pyg experiment reviews --seeds 2 --set {told}`" in text
    # The best first, hsa without a difference.
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0].endswith("| less hsa's |")
    assert (
        lines[2]
        == "| hsa | 2 | 0.805 ± 0.007 | 0.805 ± 0.007 | 0.500 ± 0.000 | 2.0 |  |"
    )
    assert "| segment | 2 | 0.750 ± 0.000 |" in lines[3]
    assert lines[4].startswith("| flat | 2 | 0.705 ± 0.007 |")
    assert lines[4].endswith("| -0.100 ± 0.000 (n=2) |")
    assert lines[5].startswith("| gps, max_tokens 512 | 2 |")
    assert "| hsa | 1,000 | 600 | 2.5 | 2.0 | 2.0 | 50 | 1 |" in text
    assert "| wall s per epoch |" in text
    assert (tmp_path / "learning_reviews_movie-reviews.png").exists()
    assert "8 runs, 0.0 hours" in text


def test_the_clock_of_the_processor_is_told_where_all_runs_have_it(tmp_path):
    records = [record("hsa", 0, 0.5, processor=0.5), record("flat", 0, 0.5)]
    assert "wall s of an epoch's training" in write_report(records, tmp_path, "reviews")
    records[1] = record("flat", 0, 0.5, processor=1.0)
    text = write_report(records, tmp_path, "reviews")
    assert "| processor s per epoch |" in text
    assert "processor s of an epoch's training" in text
    assert "wall" not in text
    assert "| hsa | 1,000 | 600 | 2.5 | 0.5 | 2.0 | 200 | 1 |" in text


def test_of_two_settings_that_of_hsa_is_the_usual_one(tmp_path):
    records = [
        record("flat", 0, 0.7, tree="flat", max_tokens=512),
        record("hsa", 0, 0.8),
    ]
    text = write_report(records, tmp_path, "two")
    assert "| flat, tree flat, max_tokens 512 | 1 | 0.700 |" in text
    assert "| less hsa's |" in text


def test_a_setting_is_compared_with_that_of_hsa_that_is_most_alike(tmp_path):
    records = [
        record("hsa", 0, 0.8),
        record("hsa", 0, 0.6, lr=0.5),
        record("flat", 0, 0.7, tree="flat"),
        record("flat", 0, 0.65, lr=0.5, max_tokens=512),
        # What a model has no use for is no difference.
        record("segment", 0, 0.75, lr=None),
    ]
    text = write_report(records, tmp_path, "four")
    assert "from hsa's with the most like settings are paired by seed" in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0].endswith("| difference | from |")
    # Each difference is told with the row that it is from.
    ends = [line.split(" | ")[-2:] for line in lines if "| 1 | 0." in line]
    assert ends == [
        ["", " |"],
        ["-0.050 (n=1)", "hsa |"],
        ["-0.100 (n=1)", "hsa |"],
        ["+0.050 (n=1)", "hsa, lr 0.5 |"],
        ["-0.200 (n=1)", "hsa |"],
    ]


def test_a_bag_of_words_is_compared_with_hsa_at_its_best(tmp_path):
    records = [
        record("hsa", 0, 0.8),
        record("hsa", 0, 0.9, lr=0.5, features="glove"),
        record("hsa", 0, 0.7, lr=0.1),
        record("bag-of-words", 0, 0.95, lr=None, features=None),
    ]
    # What the validation says counts, not the test.
    for one, validated in zip(records, (0.6, 0.5, 0.65), strict=False):
        one.final["val_accuracy"] = validated
    text = write_report(records, tmp_path, "four")
    assert "| +0.250 (n=1) |" in text


def test_unlike_processors_are_told_beside_the_times(tmp_path):
    records = [record("hsa", 0, 0.8), record("flat", 0, 0.7)]
    assert "processor |" not in write_report(records, tmp_path, "two")
    other = {**ENVIRONMENT, "processor": "another", "earlier": [ENVIRONMENT]}
    records[1] = replace(records[1], environment=other)
    text = write_report(records, tmp_path, "two")
    assert "| leaves/s | peak memory, MB | processor |" in text
    assert "| 50 | 1 | a processor |" in text
    assert "| 50 | 1 | a processor, another |" in text


def test_folds_are_runs_of_one_setting(tmp_path):
    records = [
        record(model, seed, accuracy, fold=fold)
        for model, accuracy in (("hsa", 0.8), ("flat", 0.7))
        for seed in range(2)
        for fold in range(3)
    ]
    text = write_report(records, tmp_path, "folds")
    assert "| model | folds | accuracy |" in text
    assert "are paired by fold," in text
    assert "| hsa | 6 | 0.800 ± 0.000 |" in text
    assert "| -0.100 ± 0.000 (n=6) |" in text


def test_folds_and_the_fixed_split_are_not_one_setting(tmp_path):
    records = [
        *(record("hsa", 0, 0.9, fold=fold) for fold in range(3)),
        *(record("flat", 0, 0.8, fold=fold) for fold in range(3)),
        *(record("hsa", seed, 0.7) for seed in range(2)),
        *(record("flat", seed, 0.65) for seed in range(2)),
    ]
    lines = write_report(records, tmp_path, "folds").splitlines()
    scores = [line for line in lines if line.startswith("|") and "±" in line]
    assert [line.split("|")[1:4] for line in scores] == [
        [" hsa, folds ", " 3 ", " 0.900 ± 0.000 "],
        [" flat, folds ", " 3 ", " 0.800 ± 0.000 "],
        [" hsa ", " 2 ", " 0.700 ± 0.000 "],
        [" flat ", " 2 ", " 0.650 ± 0.000 "],
    ]
    assert scores[1].endswith("| -0.100 ± 0.000 (n=3) | hsa, folds |")
    assert scores[3].endswith("| -0.050 ± 0.000 (n=2) | hsa |")


def test_settings_are_compared_with_as_much_to_train_on(tmp_path):
    many = {"train": 5_000, "val": 200, "test": 200}
    records = []
    for size in (1_600, 5_000):
        for model, score in (("hsa", 0.8), ("flat", 0.7)):
            for seed in range(2):
                made = record(model, seed, score + size / 1e5, train_size=size)
                facts = {**made.facts, **(many if size == 5_000 else {})}
                records.append(replace(made, facts=facts))
    text = write_report(records, tmp_path, "sizes")
    assert "1,600 or 5,000 training, 200 validation and 200 test signals" in text
    assert text.count("| -0.100 ± 0.000 (n=2) |") == 2


def test_other_classes_are_tables_of_their_own(tmp_path):
    records = [
        record("hsa", 0, 0.5, task="sst", binary=False),
        record("hsa", 0, 0.9, task="sst", binary=True),
        record("hsa", 0, 0.7, task="emoji"),
        record("hsa", 0, 0.3, task="emoji", target="subcategory"),
    ]
    text = write_report(records, tmp_path, "sst")
    assert "### sst\n" in text
    assert "### sst-binary\n" in text
    assert "### emoji-subcategory\n" in text


def test_settings_with_a_value_on_one_side_alone_have_titles_of_their_own(tmp_path):
    records = [
        record("hsa", 0, 0.9, features="glove"),
        record("hsa", 0, 0.8, features="glove", vectors="mine.txt"),
        record("hsa", 0, 0.7, features="glove", hidden=64),
    ]
    text = write_report(records, tmp_path, "three")
    rows = [line.split(" | ")[0] for line in text.splitlines() if "| 1 | 0." in line]
    assert len(set(rows)) == 3
    assert any("vectors mine.txt" in row for row in rows)


def test_scores_on_other_test_sets_are_not_compared(tmp_path):
    records = [record("hsa", 0, 0.8), record("flat", 0, 0.7)]
    assert "-0.100 (n=1)" in write_report(records, tmp_path, "two")
    records[1] = replace(records[1], facts={**records[1].facts, "test": 10})
    assert "(n=1)" not in write_report(records, tmp_path, "two")
