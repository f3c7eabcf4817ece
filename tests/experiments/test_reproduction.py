import shlex

import pytest

from hsa_pyg.experiments.configuration import expand, load_configuration, override
from hsa_pyg.experiments.records import Record
from hsa_pyg.experiments.reproduction import commands, reproduction


def settings_of(command):
    """Settings by name, and the number of seeds, as the command line reads them."""
    program, verb, name, *options = shlex.split(command)
    assert (program, verb) == ("hsa-pyg", "experiment")
    asked = list(zip(options[::2], options[1::2], strict=True))
    assert {key for key, _ in asked} <= {"--seeds", "--set"}
    configuration = load_configuration(name)
    override(configuration, [value for key, value in asked if key == "--set"])
    (seeds,) = (int(value) for key, value in asked if key == "--seeds")
    return {one.name: one.configuration for one in expand(configuration)}, seeds


def records(name, seeds, *assignments):
    configuration = load_configuration(name)
    override(configuration, assignments)
    return [
        Record(
            configuration.experiment,
            setting.name,
            seed,
            setting.configuration,
            environment={},
            seconds=1.0,
            peak_memory=1,
            attention_flops=1,
            history=[],
            final={},
            facts={},
        )
        for setting in expand(configuration)
        for seed in range(seeds)
    ]


def runs(found):
    return {(one.setting, one.seed): dict(one.configuration) for one in found}


def check(found, name):
    """Commands that make the runs again, each once, and no others."""
    told, missed = commands(found, name)
    assert missed == []
    made = [
        ((setting, seed), settings)
        for command in told
        for expanded, seeds in [settings_of(command)]
        for setting, settings in expanded.items()
        for seed in range(seeds)
    ]
    assert len(made) == len(dict(made))
    assert dict(made) == runs(found)
    return told


@pytest.mark.parametrize(
    ("name", "assignments"),
    [
        ("imdb", []),
        ("imdb", ["features=glove", "train_size=0"]),
        ("molecules", ["task=esol", "epochs=3"]),
        ("sst", ["binary=true", "lr=2e-5"]),
        ("reviews", ["model=hsa,flat", "regime=paper", "lr=0.001"]),
        ("reviews", ["model=hsa,bag-of-words", "fold=0,9"]),
        ("list-ops", ["length=[5,20]", "tree=windows", "windows=[4,4]"]),
        ("elec", ["vectors=of mine/it's.txt"]),
        ("cora", ["local=none", "model=hsa"]),
        # No model of molecules goes with another task until all three are changed.
        ("molecules", ["task=imdb", "model=hsa", "features=glove"]),
        ("semantic-focus", ["attention=full,topk", "stop_after=10"]),
    ],
)
def test_what_was_set_is_told(name, assignments):
    (command,) = check(records(name, 2, *assignments), name)
    assert command.count("--set") <= len(assignments)


def test_what_no_command_makes_alone_takes_several():
    found = records("imdb", 3) + records("imdb", 2, "model=hsa", "lr=0.1,0.2")
    found = [one for one in found if "minilm" not in one.setting]
    told = check(found, "imdb")
    assert told == [
        "hsa-pyg experiment imdb --seeds 3 --set features=glove",
        "hsa-pyg experiment imdb --seeds 2 --set model=hsa --set features=glove "
        "--set lr=0.1,0.2",
    ]
    names = {"imdb-hsa-featuresglove", "imdb-flat-featuresglove-max-tokens512"}
    some = [one for one in found if one.setting in names]
    assert len(check(some, "imdb")) == 2


def test_settings_of_another_version_are_named():
    old, *others = records("imdb-paper", 1)
    old = Record(**{**vars(old), "configuration": {**old.configuration, "depths": 3}})
    told, missed = commands([old, *others], "imdb-paper")
    assert missed == [old.setting]
    assert settings_of(told[0])[0].keys() == {one.setting for one in others}
    assert f"has the settings of `{old.setting}`" in reproduction([old], "imdb-paper")
    # A setting that came later, and that nobody asked for, changes nothing.
    younger = dict(others[0].configuration)
    del younger["group"], younger["binary"]
    assert younger != others[0].configuration
    older = Record(**{**vars(others[0]), "configuration": younger})
    assert commands([older], "imdb-paper")[1] == []


def test_a_file_that_is_not_shipped_is_named_as_one():
    text = reproduction(records("imdb-paper", 2), "mine")
    assert text.startswith("`hsa-pyg experiment mine.yaml --seeds 2`, with the file")
