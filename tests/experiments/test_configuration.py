import pytest

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.configuration import (
    FOLDERS,
    check_used,
    expand,
    load_configuration,
    override,
    usual_values,
)


@pytest.fixture
def write(tmp_path):
    """A function that writes a configuration and returns its path."""

    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_text(f"experiment: semantic-focus\n{text}")
        return str(path)

    return write


def names(configuration, *assignments):
    override(configuration, assignments)
    return [setting.name for setting in expand(configuration)]


def test_every_shipped_configuration_expands():
    shipped = [path for folder in FOLDERS for path in folder.glob("*.yaml")]
    assert shipped
    for path in shipped:
        configuration = load_configuration(path.stem)
        assert configuration.name == path.stem
        assert expand(configuration)


def test_axes_expand_to_a_grid_and_the_rest_is_kept(write):
    path = write("axes: {attention: [full, topk], k: [5, 9]}\nsettings: {epochs: 3}")
    settings = expand(load_configuration(path))
    # k plays no part in full attention, which is run once.
    assert [setting.name for setting in settings] == [
        "even-pairs-full-epochs3",
        "even-pairs-topk-epochs3",
        "even-pairs-topk-k9-epochs3",
    ]
    assert settings[2].configuration["k"] == 9
    assert all(setting.configuration["epochs"] == 3 for setting in settings)


def test_the_command_line_has_the_last_word(write):
    path = write("axes: {attention: [full, topk], k: [5, 9]}")
    found = names(load_configuration(path), "attention=topk", "k=7", "lr=0.5")
    assert found == ["even-pairs-topk-k7-lr0.5"]
    found = names(load_configuration(path), "task=parity,even-pairs", "k=[5,9]")
    assert len(found) == 6
    assert found[0] == "parity-full"
    found = names(
        load_configuration(path), "attention=hsa", "windows=[5, 4]", "log_scores=true"
    )
    assert found == ["even-pairs-hsa-windows5-4-log-scores"]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("atention=full", "no setting 'atention'.*did you mean 'attention'"),
        ("epochs", "--set takes key=value, got 'epochs'"),
        ("epochs=", "--set takes key=value"),
        ("epochs=many", "No fitting value: epochs: .*many"),
        ("windows=5", "No fitting value: windows"),
        ("epochs=[", "takes a value between"),
    ],
)
def test_an_assignment_that_does_not_fit_is_refused(write, assignment, message):
    configuration = load_configuration(write(""))
    with pytest.raises(SettingsError, match=message):
        names(configuration, assignment)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sedes: 3", "no setting 'sedes' .*did you mean 'seeds'"),
        ("settings: {epoch: 3}", "no setting 'epoch' .*did you mean 'epochs'"),
        ("axes: {heads: []}", "axis 'heads' has no values"),
        ("axes: [", "no YAML file"),
        ("seeds: some", "seeds: Value 'some'"),
        ("seeds: 0", "seeds must be at least 1"),
        ("settings: [a]", "axes and settings are keys and values"),
        ("settings:\n  lr: ???", "cannot be read"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(write, text, message):
    with pytest.raises(SettingsError, match=message):
        expand(load_configuration(write(text)))


def test_an_empty_file_is_told_how_to_begin(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(SettingsError, match="begin it with a line such as 'experiment"):
        load_configuration(str(tmp_path / "empty.yaml"))


def test_what_differs_has_names_of_its_own_and_equal_ones_are_run_once(tmp_path):
    """A regime has usual values of its own, which names are told against."""
    path = tmp_path / "regimes.yaml"
    path.write_text(
        "experiment: learning\nsettings: {task: imdb, regime: paper}\nvariants:\n"
        "  - {}\n  - {self_attention: true}\n  - {layers: 2}\n  - {channels: 384}\n"
    )
    assert names(load_configuration(str(path))) == [
        "imdb-hsa-regimepaper",
        "imdb-hsa-regimepaper-self-attention",
        "imdb-hsa-regimepaper-layers2",
    ]
    path.write_text(
        "experiment: learning\nsettings: {features: glove}\n"
        "axes: {vectors: [/a/b.txt, /a-b.txt]}\n"
    )
    with pytest.raises(SettingsError, match=r"one name, .* differ \(vectors /a"):
        expand(load_configuration(str(path)))


def test_names_that_are_not_there(tmp_path, write):
    with pytest.raises(SettingsError, match="did you mean 'semantic-focus'"):
        load_configuration("semantic-focsu")
    path = tmp_path / "other.yaml"
    path.write_text("experiment: semantic-fokus")
    with pytest.raises(SettingsError, match="no experiment 'semantic-fokus'"):
        load_configuration(str(path))
    path.write_text("- just a list")
    with pytest.raises(SettingsError, match="must hold keys and values"):
        load_configuration(str(path))


def test_variants_are_settings_that_go_together(write):
    text = "variants: [{attention: full}, {attention: topk, k: 9}, {heads: 2}]"
    path = write(text)
    found = names(load_configuration(path))
    assert [name.partition("-heads")[0] for name in found[:2]] == [
        "even-pairs-full",
        "even-pairs-topk-k9",
    ]
    # What has another value is left out; what says nothing gets each value.
    found = names(load_configuration(path), "attention=topk,banded")
    assert sorted(found) == [
        "even-pairs-banded-heads2",
        "even-pairs-topk-heads2",
        "even-pairs-topk-k9",
    ]
    with pytest.raises(SettingsError, match=r"no setting 'kk' .*variants"):
        load_configuration(write("variants: [{kk: 3}]"))


def test_a_value_joins_the_variants_that_say_nothing_of_its_key(write):
    path = write("variants: [{attention: topk, k: 3}, {attention: hsa-topk}]")
    found = names(load_configuration(path), "k=5,7")
    assert found == ["even-pairs-hsa-topk", "even-pairs-hsa-topk-k7"]


def test_the_values_of_a_grid_are_told_setting_by_setting(write):
    path = write("axes: {attention: [full, topk, hsa], k: [9, 5]}")
    found = usual_values(expand(load_configuration(path)))
    assert found["attention"] == ["full", "topk", "hsa"]
    # Of full attention, None; no windows but of hsa; and nothing ends a run early.
    assert found["k"] == [9, 5]
    assert found["windows"] == [[5]]
    assert found["stop_after"] == []
    assert found["num_global"] == []
    assert found["log_scores"] == [False]


def test_what_is_expanded_is_nobody_elses(write):
    path = write("settings: {length: 12}")
    (one,) = expand(load_configuration(path))
    one.settings.length = 99
    (other,) = expand(load_configuration(path))
    assert other.settings.length == 12


@pytest.mark.parametrize(
    "beside", ["settings: {attention: topk}", "variants: [{attention: topk}]"]
)
def test_a_key_stands_in_one_place(write, beside):
    path = write(f"axes: {{attention: [full]}}\n{beside}")
    part = beside.partition(":")[0]
    with pytest.raises(
        SettingsError, match=f"'attention' stands in axes and in {part}"
    ):
        load_configuration(path)


def test_what_plays_no_part_anywhere_is_refused(write):
    configuration = load_configuration(write("axes: {attention: [full, topk]}"))
    override(configuration, ["k=9"])
    check_used(["k=9"], expand(configuration))
    override(configuration, ["attention=full"])
    with pytest.raises(SettingsError, match="k=9: k plays no part in any of these 1"):
        check_used(["attention=full", "k=9"], expand(configuration))
    check_used(["k=null"], expand(configuration))
