"""Zero-shot measurements on reviews: tiny random models, reviews made here."""

import io
import tarfile
import zipfile
from typing import ClassVar

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertTokenizer,
)

from benchmarks.zero_shot import fine_tuning, finetuned, long, reviews, texts
from benchmarks.zero_shot.fine_tuning import FineTuning
from benchmarks.zero_shot.prefix import resumed, states_before
from benchmarks.zero_shot.probes import embedding, embeddings, fit
from benchmarks.zero_shot.records import Records, Setting
from benchmarks.zero_shot.review_trials import ReviewTrials
from benchmarks.zero_shot.sentiment import (
    HIERARCHIES,
    THREE,
    Subject,
    best_two,
    goals,
    main_settings,
    survey_settings,
)
from benchmarks.zero_shot.texts import Reviews, encode, in_order
from hsa_pyg.integrations.transformers.comparison import run_batch
from hsa_pyg.integrations.transformers.measure import ReplacementTrials

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "a",
    "film",
    "good",
    "bad",
    "it",
    "is",
    ".",
]
FEW = reviews.Slices(
    probe=range(20),
    choice=range(2),
    pilot=range(2, 4),
    main=range(4),
    longer=range(4),
    survey=range(4, 8),
    exact=range(4, 8),
    movies_probe=range(20),
    movies=range(20, 24),
    most=2,
)


def made(number):
    """Reviews of other lengths, good and bad in turn."""
    words = [["bad", "good"][at % 2] for at in range(number)]
    return Reviews(
        [
            f"It is a {word} film. " * (6 + at % 5) + "\n A film is it."
            for at, word in enumerate(words)
        ],
        [at % 2 for at in range(number)],
    )


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    return BertTokenizer.from_pretrained(tmp_path)


def config(**more):
    return BertConfig(
        vocab_size=len(WORDS),
        hidden_size=24,
        num_attention_heads=2,
        num_hidden_layers=6,
        intermediate_size=32,
        **more,
    )


@pytest.fixture
def subject(tokenizer):
    torch.manual_seed(0)
    return Subject("tiny", BertModel(config()).eval(), tokenizer, bfloat16=False)


@pytest.fixture
def classifier(tokenizer):
    torch.manual_seed(0)
    model = BertForSequenceClassification(config()).eval()
    return Subject("tiny classifier", model, tokenizer, bfloat16=False)


class TestTexts:
    def test_negative_and_positive_in_turn_in_an_order_that_names_fix(self):
        names = {
            f"{kind}/{at}": f"{kind}{at}" for kind in ("neg", "pos") for at in "123"
        }
        found = in_order(names)
        again = in_order(dict(reversed(names.items())))
        assert found == again
        assert [text[:3] for text in found.texts] == ["neg", "pos"] * 3
        assert found.labels == [0, 1] * 3

    def test_classes_of_other_sizes_are_refused(self):
        with pytest.raises(ValueError, match="2 negative and 1 positive"):
            in_order({"neg/1": "", "neg/2": "", "pos/1": ""})

    def test_imdb_is_read_split_by_split_with_its_line_breaks(self, tmp_path):
        folder = tmp_path / "imdb"
        folder.mkdir()
        with tarfile.open(folder / "imdb.tar.xz", "w:xz") as archive:
            for split in ("train", "val", "test"):
                for kind in ("neg", "pos"):
                    text = f"{split}<br />{kind} é".encode()
                    member = tarfile.TarInfo(f"imdb/{split}/{kind}/1_2.txt")
                    member.size = len(text)
                    archive.addfile(member, io.BytesIO(text))
            archive.addfile(tarfile.TarInfo("imdb/README/notes.txt"))
        found = texts.imdb(tmp_path)
        assert sorted(found) == ["test", "train", "val"]
        assert found["val"].texts == ["val\nneg é", "val\npos é"]

    def test_movie_reviews_are_read_from_the_archive(self, tmp_path):
        folder = tmp_path / "movie_reviews"
        folder.mkdir()
        with zipfile.ZipFile(folder / "movie_reviews.zip", "w") as archive:
            archive.writestr("movie_reviews/pos/cv1_2.txt", "fine")
            archive.writestr("movie_reviews/neg/cv1_2.txt", "dull")
            archive.writestr("movie_reviews/README", "no review")
        assert texts.movie_reviews(tmp_path) == Reviews(["dull", "fine"], [0, 1])

    def test_labels_texts_and_offsets_follow_the_batches(self, tokenizer):
        given = made(7)
        found = encode(tokenizer, given, 24, tokens=60)
        assert len(found.batches) > 1
        assert max(found.tokens) <= 24
        assert found.labels == [given.labels[at] for at in found.order]
        seen = [text for batch in found.batches for text in batch["texts"]]
        assert seen == [given.texts[at] for at in found.order]
        for batch in found.batches:
            shape = (*batch["input_ids"].shape, 2)
            assert torch.tensor(batch["offset_mapping"]).shape == shape


class TestPrefix:
    @pytest.mark.parametrize("layer", [0, 2, 5])
    @pytest.mark.parametrize("kind", ["subject", "classifier"])
    def test_what_passes_share_changes_nothing(self, kind, layer, request):
        who = request.getfixturevalue(kind)
        read = (lambda out, batch: embedding(out, batch)) if kind == "subject" else None
        found = encode(who.tokenizer, made(6), 40, tokens=80)
        plain = ReplacementTrials(who.model, found.batches, read=read, progress=False)
        states = states_before(who.model, found.batches, layer)
        for tree in ("clusters:0.5", "window:4"):
            whole = plain.attempt((layer, 5), tree)
            with resumed(who.model, states, layer):
                begun = plain.attempt((layer, 5), tree)
            assert torch.equal(whole.scores, begun.scores)
            assert not torch.equal(whole.scores, plain.scores)

    def test_the_model_is_whole_again_afterwards(self, subject):
        batches = encode(subject.tokenizer, made(2), 40).batches
        before = run_batch(subject.model, batches[0]).last_hidden_state
        states = states_before(subject.model, batches, 3)
        with pytest.raises(KeyboardInterrupt), resumed(subject.model, states, 3):
            raise KeyboardInterrupt
        again = run_batch(subject.model, batches[0]).last_hidden_state
        assert torch.equal(before, again)

    def test_other_batches_are_refused(self, subject):
        batches = encode(subject.tokenizer, made(2), 40).batches
        states = states_before(subject.model, batches, 3)
        other = {**batches[0], "input_ids": batches[0]["input_ids"].clone()}
        with resumed(subject.model, states, 3), pytest.raises(ValueError, match="kept"):
            run_batch(subject.model, other)


class TestTrials:
    def test_a_flat_tree_changes_nothing_and_sentences_are_those_of_the_texts(
        self, classifier
    ):
        found = encode(classifier.tokenizer, made(6), 40, tokens=80)
        trials = ReviewTrials(classifier.model, found, bfloat16=False)
        same = trials(Setting((1, 3), "flat"))
        assert same.agreement == 1
        assert same.divergence < 1e-9
        assert same.change == 0
        assert trials(Setting((1, 3), "sentences")).share < 1

    def test_products_in_bfloat16_are_close(self, classifier):
        found = encode(classifier.tokenizer, made(4), 40)
        exact, half = (
            ReviewTrials(classifier.model, found, bfloat16=x).trials().scores
            for x in (False, True)
        )
        assert not torch.equal(exact, half)
        torch.testing.assert_close(exact, half, atol=0.03, rtol=0.03)


class TestProbe:
    def test_it_reads_what_is_there(self, subject):
        found = encode(subject.tokenizer, made(30), 64)
        features = embeddings(subject.model, found.batches)
        assert torch.allclose(features.norm(dim=1), torch.ones(30), atol=1e-5)
        probe = fit(features, found.labels)
        assert probe.accuracy > 0.8
        trials = ReviewTrials(subject.model, found, probe.read, bfloat16=False)
        assert trials(Setting((5,), "window:4")).accuracy_before > 0.9


class TestSettings:
    PILOT: ClassVar = {
        name: {
            "divergence": 0.1 * at,
            "agreement": 0.9,
            "share": 0.05 + 0.1 * (at == 0),
        }
        for at, name in enumerate(HIERARCHIES)
    }

    def test_trees_are_chosen_among_the_cheap_ones(self):
        assert best_two(self.PILOT) == HIERARCHIES[1:3]

    def test_each_measurement_is_asked_once(self):
        two = best_two(self.PILOT)
        assert len(main_settings(two, (0, 2, 4))) == 4
        rows = survey_settings(two, THREE)
        assert len({repr(row.key()) for row in rows}) == len(rows)
        assert {row.hierarchy for row in rows} == set(HIERARCHIES)

    def test_the_bar_is_for_three_layers_at_a_tenth_of_the_flops(self):
        row = {"change": -0.005, "change_error": 0.002, "share": 0.08}
        rows = [
            (Setting(THREE, "ward:8"), row),
            (Setting((5,), "ward:8"), row),
            (Setting(THREE, "flat"), {**row, "share": 1.0}),
        ]
        lines = goals(rows, "here").splitlines()
        assert len(lines) == 3
        assert "| 92.0 | -0.5 ± 0.2 | 0.5 | ≤ 1 |  | bar |" in lines[2]


class TestFineTuning:
    FORM = FineTuning(reviews=64, length=32, rate=0.01, bfloat16=False)

    def test_the_rate_rises_and_falls(self):
        form = FineTuning(warm_up=0.1)
        rates = [form.factor(step, 100) for step in range(100)]
        assert rates[0] == pytest.approx(0.1)
        assert max(rates) == 1
        assert rates[-1] == pytest.approx(1 / 90)

    def test_a_classifier_learns(self, classifier):
        losses = fine_tuning.train(
            classifier.model, classifier.tokenizer, made(320), self.FORM
        )
        assert len(losses) == 20
        assert sum(losses[-2:]) < 0.5 * sum(losses[:2])
        assert not classifier.model.training

    def test_it_is_trained_once(self, subject, tmp_path, monkeypatch):
        folder, runs = tmp_path / "pretrained", tmp_path / "runs"
        subject.model.save_pretrained(folder)
        subject.tokenizer.save_pretrained(folder)
        monkeypatch.setattr(fine_tuning, "minilm", lambda: folder)
        monkeypatch.setattr(fine_tuning, "imdb", lambda data: {"train": made(64)})
        kept = fine_tuning.fine_tuned(None, self.FORM, runs)
        model, _ = fine_tuning.classifier(kept)
        monkeypatch.setattr(fine_tuning, "imdb", None)
        assert fine_tuning.fine_tuned(None, self.FORM, runs) == kept
        again, _ = fine_tuning.classifier(kept, seed=1)
        assert torch.equal(model.classifier.weight, again.classifier.weight)


class TestSections:
    def test_reviews(self, subject, tmp_path):
        sources = reviews.Sources(made(20), made(4), made(8), made(24))
        path = tmp_path / "reviews.jsonl"
        found = reviews.measured(subject, sources, Records(path), FEW)
        rows = path.read_text().splitlines()
        assert "### IMDB test reviews 1 to 4, 256 tokens" in found.text
        assert "### movie reviews 21 to 24, 512 tokens" in found.text
        again = reviews.measured(subject, sources, Records(path), FEW)
        assert again.text == found.text
        assert path.read_text().splitlines() == rows
        found.draw(tmp_path / "x.png")
        assert (tmp_path / "x.png").stat().st_size > 1000

    def test_fine_tuned(self, classifier, tmp_path):
        splits = {"val": made(4), "test": made(8)}
        records = Records(tmp_path / "x.jsonl")
        found = finetuned.measured(classifier, splits, records, finetuned.QUICK)
        assert "select_layers" in found.text
        assert "### IMDB test reviews 5 to 8, 256 tokens" in found.text

    def test_long(self, subject, tmp_path):
        sources = reviews.Sources(made(200), made(4), made(60), made(2))
        slices = long.Slices(
            fewest=30,
            most=70,
            cut=24,
            probe=range(20),
            test=range(4),
            timed=range(1),
            rounds=1,
            settings=2,
        )
        pilot = TestSettings.PILOT
        choices = reviews.Choices(pilot, best_two(pilot), (0, 2, 4))
        short = Subject(
            "tiny",
            BertModel(config(max_position_embeddings=40)).eval(),
            subject.tokenizer,
            bfloat16=False,
        )
        records = Records(tmp_path / "x.jsonl")
        found = long.measured(short, sources, records, slices, choices)
        assert "| cut to 24 |" in found.text
        assert "softmax, whole" in found.text
        assert short.model.config.max_position_embeddings == 40

    def test_long_reviews_are_those_of_the_right_length(self, tokenizer):
        slices = long.Slices(fewest=50, most=60)
        found = long.long_reviews(tokenizer, made(20), slices)
        lengths = [len(tokenizer(text)["input_ids"]) for text in made(20).texts]
        assert len(found) == sum(50 <= x <= 60 for x in lengths) > 0
