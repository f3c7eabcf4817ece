"""``hsa-pyg zero-shot`` on tiny models with random weights, wholly offline."""

import json
import subprocess
import sys

import pytest
import tokenizers
import torch
import transformers
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from hsa_pyg.cli import SettingsError
from hsa_pyg.cli.app import app
from hsa_pyg.integrations.transformers import ReplacementTrials
from hsa_pyg.integrations.transformers.trees import DEFAULT_TREES

# No timing.
FAST = ("--lengths", "")
WORDS = "the film was good bad long short i liked hated it . and"


@pytest.fixture(scope="module")
def tokenizer():
    names = f"[PAD] [UNK] [CLS] [SEP] {WORDS}".split()
    vocabulary = {name: number for number, name in enumerate(names)}
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    backend.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", 3), ("[CLS]", 2)
    )
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=48,
        **{f"{name}_token": token for name, token in special.items()},
    )


def saved(folder, tokenizer, kind, **options):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_attention_heads=2,
        num_hidden_layers=3,
        intermediate_size=32,
        max_position_embeddings=48,
        **options,
    )
    model = getattr(transformers, kind)(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(10)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("classifier")
    names = {0: "neg", 1: "pos"}
    return saved(
        folder,
        tokenizer,
        "BertForSequenceClassification",
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, tokenizer):
    return saved(tmp_path_factory.mktemp("encoder"), tokenizer, "BertModel")


def texts(number=24):
    generator = torch.Generator().manual_seed(1)
    words = WORDS.split()
    for at in range(number):
        length = int(torch.randint(3, 30, (1,), generator=generator))
        chosen = torch.randint(0, len(words), (length,), generator=generator)
        mark = "bad" if at % 2 else "good"
        yield ("neg", "pos")[1 - at % 2], " ".join([mark, *(words[i] for i in chosen)])


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in texts()))
    return str(path)


def run(*arguments):
    done = CliRunner().invoke(
        app, ["zero-shot", *arguments], catch_exceptions=False, env={"COLUMNS": "200"}
    )
    assert done.exit_code == 0, done.output
    return done.output


def measured(tmp_path, *arguments):
    out = tmp_path / "out.json"
    run(*arguments, "--out", str(out))
    return json.loads(out.read_text())


def test_a_classifier_by_its_own_labels(classifier, data, tmp_path):
    asked = ["--layers", "0,2", "--layers", "alternate", "--lengths", ""]
    trees = ["--hierarchy", "window:2", "--hierarchy", "flat"]
    found = measured(tmp_path, classifier, data, *asked, *trees)
    layers = [row["measurement"]["layers"] for row in found["rows"]]
    assert layers == [[0, 2]] * 4
    assert [row["hierarchy"] for row in found["rows"]] == ["window:2", "flat"] * 2
    flat = found["rows"][1]["measurement"]
    assert flat["agreement"] == 1
    assert flat["change"] == 0
    assert flat["divergence"] < 1e-9
    assert flat["share"] == 1
    window = found["rows"][0]["measurement"]
    assert window["share"] < 0.5
    assert window["samples"] == 24
    assert window["accuracy_before"] == flat["accuracy_after"]
    assert found["times"] == []


def test_the_accuracy_is_that_of_the_model(classifier, data, tmp_path, tokenizer):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(classifier)
    right = 0
    for label, text in texts():
        with torch.no_grad():
            made = model.eval()(**tokenizer(text, return_tensors="pt")).logits.argmax()
        right += ["neg", "pos"][int(made)] == label
    found = measured(tmp_path, classifier, data, "--lengths", "")
    assert found["rows"][0]["measurement"]["accuracy_before"] == right / 24


def test_the_tables(classifier, data, tmp_path):
    out = tmp_path / "new" / "out.md"
    asked = ["--layers", "1", "--lengths", "8,16", "--untied", "--no-self-attention"]
    shown = run(classifier, data, *asked, "--specials", "inside", "--out", str(out))
    for text in (shown, out.read_text()):
        for word in (
            "accuracy before",
            "untied queries, without self-attention, special tokens inside",
            "24 of 24 texts, drawn with seed 0",
            "±",
            "MFLOPs",
            DEFAULT_TREES,
        ):
            assert word in text
    table = [line for line in out.read_text().splitlines() if line.startswith("|")]
    assert len(table) == 3 + 4
    assert table[3].startswith("| seconds | trees | 8 tokens | 16 tokens |")
    assert table[5].startswith("| softmax |")


def test_lengths_beyond_the_positions_are_stretched_or_said_not_to_run(
    classifier, data, tmp_path, monkeypatch
):
    asked = [classifier, data, "--samples", "4", "--lengths", "16,100"]
    found = measured(tmp_path, *asked)
    assert [time["length"] for time in found["times"]] == [16, 100]
    assert all(x > 0 for time in found["times"] for x in time["seconds"])

    def refuse(model, length):
        raise NotImplementedError("it has no table")

    monkeypatch.setattr(
        "hsa_pyg.integrations.transformers.extend_positions", refuse, raising=True
    )
    found = measured(tmp_path, *asked)
    assert found["times"][0]["reasons"] == ["", ""]
    assert found["times"][1]["seconds"] == [None, None]
    assert "cannot be stretched" in found["times"][1]["reasons"][0]
    shown = run(*asked)
    assert "not run" in shown
    assert "At 100 tokens nothing was run: " in shown


def test_a_replacement_that_fails_at_a_length_is_said_so(classifier, data, monkeypatch):
    from hsa_pyg.cli import forward_times

    before = forward_times._seconds

    def short_of_memory(model, batch):
        from hsa_pyg.integrations.transformers import replaced_layers

        if replaced_layers(model) and batch["input_ids"].size(1) > 16:
            raise RuntimeError("not enough memory: 1 GiB")
        return before(model, batch)

    monkeypatch.setattr(forward_times, "_seconds", short_of_memory)
    shown = run(classifier, data, "--samples", "4", "--lengths", "16,32")
    assert "At 32 tokens segments:0.1 was not run: not enough memory: 1 GiB" in shown


def test_texts_longer_than_the_model(classifier, tmp_path):
    path = tmp_path / "long.jsonl"
    rows = [{"text": "good film . " * 40, "label": 1}, {"text": "bad", "label": 0}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = measured(tmp_path, classifier, str(path), "--lengths", "")
    assert found["facts"]["cut"] == "1 texts, to 48 tokens"
    found = measured(
        tmp_path, classifier, str(path), "--lengths", "", "--max-length", "100"
    )
    assert found["facts"]["positions"] == "stretched from 48 to 100"
    assert found["facts"]["cut"] == "1 texts, to 100 tokens"


def by_hand(encoder):
    """Accuracy of a probe on the texts that it was fitted to."""
    model = transformers.AutoModel.from_pretrained(encoder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    with torch.no_grad():
        rows = [
            model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
            for _, text in texts()
        ]
    features = torch.stack(rows).double().numpy()
    labels = [label for label, _ in texts()]
    features = (features - features.mean(0)) / features.std(0)
    probe = LogisticRegression(max_iter=2000).fit(features, labels)
    return pytest.approx(probe.score(features, labels))


def test_a_probe_learns_on_texts_that_are_not_measured(encoder, data, tmp_path):
    asked = [encoder, data, "--lengths", "", "--probe", "--layers", "1"]
    found = measured(tmp_path, *asked, "--train-samples", "14")
    row = found["rows"][0]["measurement"]
    assert row["samples"] == 12  # half is measured at least
    assert row["accuracy_before"] is not None
    assert "12 others, of the rest" in found["facts"]["data"]
    other = tmp_path / "train.csv"
    lines = [f'"{text}",{label}' for label, text in texts()]
    other.write_text("\n".join(["Text,Label", *lines]))
    found = measured(tmp_path, *asked, "--train", str(other))
    row = found["rows"][0]["measurement"]
    assert row["samples"] == 24
    assert row["accuracy_before"] == by_hand(encoder)
    assert f"24 others, of {other.as_posix()}" in found["facts"]["data"]


def test_a_probe_on_a_model_with_a_head_and_three_classes(classifier, tmp_path):
    folder = tmp_path / "classes"
    for number, (label, text) in enumerate(texts(60)):
        name = "long" if number % 5 == 0 else label
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / f"{number}.txt").write_text(text)
    found = measured(
        tmp_path, classifier, str(folder), "--probe", "--hierarchy", "flat", *FAST
    )
    row = found["rows"][0]["measurement"]
    assert row["samples"] == 30
    assert row["agreement"] == 1


def test_interrupted_it_leaves_its_rows(classifier, data, tmp_path, monkeypatch):
    # There is one attempt to pop; the second fails.
    attempts, out = [ReplacementTrials.attempt], tmp_path / "out.json"
    monkeypatch.setattr(
        ReplacementTrials, "attempt", lambda *a, **k: attempts.pop()(*a, **k)
    )
    asked = ["--hierarchy", "flat", "--hierarchy", "window:4", "--out", str(out)]
    done = CliRunner().invoke(app, ["zero-shot", classifier, data, *asked])
    assert isinstance(done.exception, IndexError)
    found = json.loads(out.read_text())
    assert [row["hierarchy"] for row in found["rows"]] == ["flat"]


def test_without_labels(classifier, encoder, data, tmp_path):
    found = measured(tmp_path, classifier, data, "--no-labels", "--lengths", "")
    row = found["rows"][0]
    assert row["measurement"]["accuracy_before"] is None
    assert row["measurement"]["agreement"] <= 1
    assert row["cosine_change"] is None
    found = measured(tmp_path, encoder, data, "--no-labels", "--lengths", "")
    row = found["rows"][0]
    assert 0 < row["cosine_change"] < 2
    assert row["measurement"]["agreement"] is None
    shown = run(encoder, data, "--no-labels", "--lengths", "")
    assert "1 - cosine" in shown
    assert "KL" not in shown


def test_layers_are_selected_on_other_texts(classifier, data, tmp_path):
    asked = [classifier, data, "--lengths", "", "--hierarchy", "window:2"]
    found = measured(tmp_path, *asked, "--layers", "select:2", "--layers", "select:0.8")
    two, share = (row["measurement"] for row in found["rows"])
    assert len(two["layers"]) == 2
    assert share["model_share"] < 0.85
    assert two["samples"] == 12
    assert "12 others, of the rest" in found["facts"]["data"]
    assert "without labels" in found["facts"]["layers"]


def test_sentences_are_those_of_the_text(classifier, data, tmp_path):
    found = measured(tmp_path, classifier, data, "--hierarchy", "sentences", *FAST)
    assert found["rows"][0]["measurement"]["share"] < 1


def test_labels_that_the_model_calls_otherwise(classifier, tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("text\tlabel\ngood film\tgreat\nbad film\tawful\n")
    with pytest.raises(SettingsError, match=r"awful, great; .* neg = 0, pos = 1"):
        run(classifier, str(path))
    named = ["--class", "great=pos", "--class", "awful=0", "--lengths", ""]
    found = measured(tmp_path, classifier, str(path), *named)
    assert found["rows"][0]["measurement"]["samples"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", "last"], "--layers 'last' is not known"),
        (["--layers", "7"], "layer 7 does not exist"),
        (["--layers", "select:few"], "names no budget"),
        (["--layers", "select:9"], "budget=9 layers"),
        (["--hierarchy", "bush"], "'bush' is not known"),
        (["--hierarchy", "quadtree"], "needs a model over patches"),
        (["--class", "neg"], "must be LABEL=CLASS"),
        (["--lengths", "ten"], "must be numbers of tokens"),
        (["--lengths", "1"], "A text of 1 tokens cannot be made"),
        (["--probe", "--no-labels"], "does not fit"),
        (["--train", "x.tsv"], "--train is for --probe"),
        (["--out", "table.txt"], "must end in .md or .json"),
        (["--device", "abacus"], "cannot be loaded"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(classifier, data, arguments, message):
    with pytest.raises(SettingsError, match=message):
        run(classifier, data, *arguments)


def test_models_that_do_not_fit(encoder, data, tmp_path, tokenizer, monkeypatch):
    with pytest.raises(SettingsError, match=r"no classifier.*--probe"):
        run(encoder, data)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SettingsError, match=r"nothing' cannot be loaded: "):
        run(str(tmp_path / "nothing"), data)

    kind = "BertForSequenceClassification"
    one = saved(tmp_path / "one", tokenizer, kind, num_labels=1)
    with pytest.raises(SettingsError, match="does not choose one of several classes"):
        run(one, data)

    def unreachable(name):
        raise OSError("no connection")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", unreachable)
    with pytest.raises(OSError, match="'some/model' cannot be loaded: no connection"):
        run("some/model", data)


def test_lengths_are_checked_before_anything_runs(classifier, data, monkeypatch):
    monkeypatch.setattr("hsa_pyg.cli.zero_shot.ReplacementTrials", None)
    with pytest.raises(SettingsError, match="A text of 2 tokens cannot be made"):
        run(classifier, data, "--lengths", "2,64")


def test_a_probe_needs_classes_it_has_seen(encoder, data, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("pos\tgood film\npos\tgood\n")
    with pytest.raises(SettingsError, match="have 1 class"):
        run(encoder, data, "--probe", "--train", str(path))
    path.write_text("pos\tgood film\nother\tgood\n")
    with pytest.raises(SettingsError, match=r"1 of the labels .* \(neg\)"):
        run(encoder, data, "--probe", "--train", str(path))
    path.write_text("text\ngood film\n")
    with pytest.raises(SettingsError, match="has no labels"):
        run(encoder, data, "--probe", "--train", str(path))
    with pytest.raises(SettingsError, match="has no labels"):
        run(encoder, str(path), "--probe")


def test_missing_extras_are_named(classifier, encoder, data, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(ImportError, match=r"hsa-pyg\[transformers\]"):
        run(encoder, data, "--probe")


def test_in_a_process_of_its_own(classifier, data):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "hsa_pyg", "zero-shot", classifier, data),
            *("--lengths", "8", "--hierarchy", "flat"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "+0.00 ± 0.00" in done.stdout
    assert "original" in done.stderr  # the progress bar
