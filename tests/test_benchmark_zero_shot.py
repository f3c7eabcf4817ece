"""Zero-shot measurements on tiny models with random weights, and how they are kept."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

from benchmarks.__main__ import main
from benchmarks.report import Options, Section, sections_of
from benchmarks.zero_shot import inputs, intents, reaction_model, reactions, records
from benchmarks.zero_shot.records import Records, Setting
from hsa_pyg.integrations.transformers import Tokens

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ">>", "Cl", "Br", "[nH]", *"CcON()=1."]
VOCABULARY = reaction_model.Vocabulary({word: at for at, word in enumerate(WORDS)})
TEXTS = ["CCO.Cl>>CCCl", "C(=O)N>>CN", "c1c[nH]cc1.CBr.O>>c1cc(C)[nH]c1", "C>>O"]


@dataclass(frozen=True)
class Found:
    """What a measurement gives, as far as tables read it."""

    accuracy_before: float | None = 0.9
    accuracy_after: float | None = 0.88
    change: float | None = -0.02
    change_error: float | None = 0.004
    agreement: float = 0.951
    divergence: float = 0.1234
    share: float = 0.08


class TestRecords:
    SETTINGS = (Setting((1, 2), "window:4"), Setting((1,), "ward:8", False, label="me"))
    KNOWN: ClassVar = {"model": "m", "data": "d"}

    def test_what_was_measured_is_not_measured_again(self, tmp_path):
        path, asked = tmp_path / "results" / "x.jsonl", []

        def measure(setting):
            asked.append(setting)
            return Found()

        for _ in range(2):
            rows = Records(path).run(self.SETTINGS, measure, **self.KNOWN)
            assert [row["setting"]["layers"] for row in rows] == [[1, 2], [1]]
        assert asked == list(self.SETTINGS)
        Records(path).run(self.SETTINGS, measure, model="m", data="other")
        assert len(asked) == 4

    def test_a_run_that_was_cut_off_goes_on(self, tmp_path):
        path = tmp_path / "x.jsonl"

        def fails(setting):
            if setting.hierarchy == "ward:8":
                raise KeyboardInterrupt
            return Found()

        with pytest.raises(KeyboardInterrupt):
            Records(path).run(self.SETTINGS, fails, **self.KNOWN)
        assert Records(path).find(self.SETTINGS[0], **self.KNOWN) is not None
        assert Records(path).find(self.SETTINGS[1], **self.KNOWN) is None

    def test_what_is_missing_is_left_out_if_nothing_shall_be_measured(self, tmp_path):
        path = tmp_path / "x.jsonl"
        Records(path).run(self.SETTINGS[:1], lambda _: Found(), **self.KNOWN)
        made = Records(path, measuring=False)
        assert made.run(self.SETTINGS, pytest.fail, **self.KNOWN) == made.rows
        found = made.found(self.SETTINGS, **self.KNOWN)
        assert [setting for setting, _ in found] == [self.SETTINGS[0]]

    def test_a_row_says_what_it_was_measured_with(self, tmp_path):
        path = tmp_path / "x.jsonl"
        Records(path).run(self.SETTINGS[:1], lambda _: Found(), **self.KNOWN)
        row = json.loads(path.read_text())
        assert row["measurement"]["share"] == 0.08
        assert row["versions"]["torch"] == torch.__version__
        assert row["revision"] == records.revision()
        assert {"model", "data", "date"} <= set(row)

    def test_the_label_is_no_part_of_the_setting(self, tmp_path):
        made = Records(tmp_path / "x.jsonl")
        made.run([Setting((1,), "flat")], lambda _: Found(), **self.KNOWN)
        named = Setting((1,), "flat", label="select_layers")
        assert made.find(named, **self.KNOWN) is not None
        assert "1 (select_layers)" in made.table([named], **self.KNOWN)

    def test_an_answer_is_asked_for_once(self, tmp_path):
        path = tmp_path / "x.jsonl"
        assert Records(path).once("which?", lambda: [1, 2]) == [1, 2]
        assert Records(path).once("which?", lambda: [3]) == [1, 2]
        assert Records(path).once("what?", lambda: [3]) == [3]

    def test_the_table_shows_percent_points_and_what_varies(self, tmp_path):
        made = Records(tmp_path / "x.jsonl")
        made.run(self.SETTINGS, lambda _: Found(), **self.KNOWN)
        lines = made.table(self.SETTINGS, **self.KNOWN).splitlines()
        assert "| queries |" in lines[0]
        assert "diagonal" not in lines[0]
        assert lines[2].startswith("| none |  |  | 90.0 |")
        end = "| 88.0 | -2.0 ± 0.4 | 95.1 | 0.123 | 8.0 |"
        assert lines[3] == f"| 1, 2 | window:4 | tied {end}"
        assert lines[4] == f"| 1 (me) | ward:8 | untied {end}"
        assert len(made.table(self.SETTINGS, model="m", data="none").splitlines()) == 2

    def test_nothing_has_no_sign(self):
        shown = {"change": -0.0002, "change_error": 0.001}
        assert records.change_shown(shown) == "+0.0 ± 0.1"

    def test_without_labels_there_is_no_accuracy(self, tmp_path):
        made = Records(tmp_path / "x.jsonl")
        made.run(
            self.SETTINGS[:1], lambda _: Found(None, None, None, None), **self.KNOWN
        )
        assert "| 1, 2 | window:4 |  |  | 95.1 |" in made.table(
            self.SETTINGS[:1], **self.KNOWN
        )

    def test_a_line_that_is_no_json_is_named(self, tmp_path):
        (tmp_path / "x.jsonl").write_text('{"question": "a", "answer": 1}\n{"cut')
        with pytest.raises(ValueError, match=r"x\.jsonl, line 2 is no JSON"):
            Records(tmp_path / "x.jsonl")

    def test_a_quick_run_leaves_the_results_alone(self, tmp_path):
        made = records.open_records(Options(results=tmp_path), "x")
        assert made.path == tmp_path / "zero_shot" / "x.jsonl"
        quick = records.open_records(Options(quick=True, results=tmp_path), "x")
        assert tmp_path not in quick.path.parents


class TestInputs:
    def test_batches_hold_like_lengths_and_all_samples(self):
        ids = [[1] * length for length in (3, 9, 1, 4, 30, 2)]
        batches, order = inputs.padded_batches(ids, pad=0, tokens=12)
        assert order == [2, 5, 0, 3, 1, 4]
        assert [tuple(x["input_ids"].shape) for x in batches] == [
            (3, 3),
            (1, 4),
            (1, 9),
            (1, 30),
        ]
        kept = torch.cat([batch["attention_mask"].sum(1) for batch in batches])
        assert kept.tolist() == [len(ids[number]) for number in order]
        assert all(x["input_ids"].equal(x["attention_mask"]) for x in batches)

    def test_what_is_missing_is_named_with_the_remedy(self, tmp_path):
        with pytest.raises(SystemExit, match=r"pass --data FOLDER.* clinc150/x"):
            inputs.data_file(tmp_path, "clinc150", "x")
        with pytest.raises(SystemExit, match="pip install --no-deps nosuch==1"):
            inputs.package_folder("nosuch", "nosuch", "1")
        with pytest.raises(SystemExit, match=r"version .*: pip install"):
            inputs.package_folder("torch", "torch", "0.0")


class TestReactionTree:
    TREE = reaction_model.ReactionTree(VOCABULARY.number[">>"], VOCABULARY.number["."])

    def tokens(self, texts, specials="root"):
        ids = [VOCABULARY.encode(text) for text in texts]
        length = max(map(len, ids))
        rows = torch.tensor([row + [0] * (length - len(row)) for row in ids])
        special = torch.isin(rows, torch.tensor(VOCABULARY.specials))
        if specials == "inside":
            special = torch.zeros_like(special)
        return Tokens(rows != 0, special, input_ids=rows)

    def groups(self, hierarchy, depth=1):
        """Leaf rows below each child of the root, the numbers of leaves in order."""
        above, found = hierarchy.parent, {}
        for leaf in range(hierarchy.num_leaves):
            path = [leaf]
            while above[path[-1]] >= 0:
                path.append(int(above[path[-1]]))
            node = path[-1 - depth] if len(path) > depth else leaf
            found.setdefault(node, []).append(leaf)
        return sorted(found.values())

    def test_text_is_cut_into_tokens_of_the_vocabulary(self):
        ids = VOCABULARY.encode("C[nH]Cl.Br>>c%1")
        words = " ".join(WORDS[number] for number in ids)
        assert words == "[CLS] C [nH] Cl . Br >> c [UNK] 1 [SEP]"
        with pytest.raises(ValueError, match="5 tokens, 4 fit"):
            VOCABULARY.encode("CCC", longest=4)

    def test_sides_hold_molecules_and_these_tokens(self):
        # [CLS] C C O . Cl >> C C Cl [SEP]
        hierarchy = self.TREE(self.tokens(TEXTS[:1]))
        assert self.groups(hierarchy, 1) == [[0], [1, 2, 3, 4, 5], [6], [7, 8, 9], [10]]
        assert self.groups(hierarchy, 2) == [
            [0],
            [1, 2, 3],
            [4],
            [5],
            [6],
            [7, 8, 9],
            [10],
        ]

    @pytest.mark.parametrize("specials", ["root", "inside"])
    def test_a_batch_gives_each_reaction_its_own_tree(self, specials):
        whole, start = self.TREE(self.tokens(TEXTS, specials)), 0
        for number, text in enumerate(TEXTS):
            alone = self.TREE(self.tokens([text], specials))
            inside = [
                [leaf - start for leaf in group]
                for group in self.groups(whole, 1)
                if start <= group[0] < start + alone.num_leaves
            ]
            assert inside == self.groups(alone, 1)
            assert int((whole.leaf_tree == number).sum()) == alone.num_leaves
            start += alone.num_leaves

    def test_windows_lie_within_molecules(self):
        tree = reaction_model.ReactionTree(self.TREE.arrow, self.TREE.dot, window=2)
        hierarchy = tree(self.tokens(["CCCCC.CC>>C"]))
        # [CLS] C C C C C . C C >> C [SEP]: molecules 1 to 5, then 7 and 8.
        assert self.groups(hierarchy, 2) == [
            [0],
            [1, 2, 3, 4, 5],
            [6],
            [7, 8],
            [9],
            [10],
            [11],
        ]
        assert self.groups(hierarchy, 3)[1:3] == [[1, 2, 3, 4], [5]]
        assert self.groups(hierarchy, 4)[1:4] == [[1, 2], [3, 4], [5]]
        families = torch.bincount(hierarchy.parent[hierarchy.parent >= 0])
        assert families[families > 0].max() == 5

    def test_without_ids_it_refuses(self):
        kept = torch.ones(1, 4, dtype=torch.bool)
        with pytest.raises(ValueError, match="needs the model's input_ids"):
            self.TREE(Tokens(kept, ~kept))


def config(layers, **options):
    return BertConfig(
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=16,
        num_hidden_layers=layers,
        vocab_size=len(WORDS),
        **options,
    )


def shown(section):
    """Rows of all tables of a section."""
    return [line for line in section.text.splitlines() if line.startswith("| ")]


@pytest.fixture
def few_reactions():
    torch.manual_seed(0)
    model = BertForSequenceClassification(config(12, num_labels=5)).eval()
    super_class = torch.tensor([1, 1, 2, 2, 10])
    return reaction_model.Reactions(
        model, VOCABULARY, TEXTS * 2, [1, 2] * 4, super_class
    )


class TestReactions:
    SLICES = reactions.Slices(range(4), range(2, 6), range(2), range(6, 8), most=2)

    def test_the_section_measures_chooses_and_draws(self, few_reactions, tmp_path):
        made = Records(tmp_path / "x.jsonl")
        section = reactions.measured(few_reactions, made, self.SLICES)
        # The bars' table has a head alone: short reactions do not cost a tenth.
        assert len(shown(section)) == 2 + 4 * (2 + 1 + 2)
        section.draw(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size
        count = len(made.rows)
        again = Records(tmp_path / "x.jsonl")
        assert reactions.measured(few_reactions, again, self.SLICES).text == (
            section.text
        )
        assert len(again.rows) == count

    def test_classes_count_by_their_super_class(self, few_reactions):
        scores = torch.eye(5)
        assert few_reactions.decide(scores).tolist() == [1, 1, 2, 2, 10]

    def test_labels_follow_the_batches(self, few_reactions):
        batches, labels = few_reactions.batches(range(1, 4))
        assert [len(x["input_ids"]) for x in batches] == [3]
        lengths = batches[0]["attention_mask"].sum(1).tolist()
        assert lengths == sorted(lengths)
        assert labels == [2, 2, 1]

    def test_no_slice_overlaps_another(self):
        slices = reactions.Slices()
        parts = [slices.main, slices.survey, slices.probe, slices.choice]
        assert len({x for part in parts for x in part}) == sum(map(len, parts))

    def test_settings_that_differ_in_the_label_alone_are_one(self):
        best = dict.fromkeys(("segments:0.08", "clusters:0.08", "window:4"), (0, 1, 11))
        settings = reactions.main_settings(best)
        once = records.distinct([*settings, Setting((8, 10), "segments:0.08")])
        assert once == records.distinct(settings)
        assert len({json.dumps(setting.key()) for setting in once}) == len(once)

    def test_bars_are_for_three_layers_at_a_tenth(self):
        found = {"change": -0.02, "change_error": 0.004, "share": 0.09}
        name = "segments:0.08"
        three = Setting((1, 2, 3), name)
        text = reactions.goals(
            [
                (three, found),
                (three, {**found, "share": 0.2}),
                (Setting((1, 2), name), found),
                (Setting((1, 2, 3), name, False), found),
                (Setting((1, 2, 3), "clusters:0.08"), found),
            ]
        )
        assert len(text.splitlines()) == 3
        assert text.endswith("| 91.0 | -2.0 ± 0.4 | 2.0 | ≤ 3 | ≤ 1 | bar |")


class TestIntents:
    @pytest.fixture
    def few_intents(self):
        torch.manual_seed(0)
        ids = [[2, *row, 3] for row in ([4, 5, 6], [7, 8, 9, 10, 11], [4], [12, 5])]
        batches, order = inputs.padded_batches(ids, 0)
        heads = {
            name: intents.Head(torch.randn(3, 16), torch.zeros(3), ["a", "b", "oos"])
            for name in intents.HEADS
        }
        labels = [["a", "b", "a", "c"][number] for number in order]
        model = BertModel(config(6)).eval()
        return intents.Intents(model, heads, batches, labels, batches)

    def test_the_section_measures_chooses_and_draws(self, few_intents, tmp_path):
        made = Records(tmp_path / "x.jsonl")
        section = intents.measured(few_intents, made, most=2)
        assert len(shown(section)) == 3 * (2 + 1 + 2)
        section.draw(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size

    def test_embeddings_are_means_of_length_one(self, few_intents):
        head = intents.Head(torch.eye(16), torch.zeros(16), list("abcdefghijklmnop"))
        batch = few_intents.test[0]
        scores = head(few_intents.model(**batch), batch)
        torch.testing.assert_close(scores.norm(dim=1), torch.ones(4))
        alone = {name: x[:1, :3] for name, x in batch.items()}
        mean = few_intents.model(**alone).last_hidden_state.mean(1)
        expected = torch.nn.functional.normalize(mean, dim=1)
        torch.testing.assert_close(scores[:1], expected)

    def test_layers_are_chosen_one_after_the_other(self, few_intents):
        best = few_intents.best("window:2")
        assert [len(layers) for layers in best] == [1, 2, 3]
        assert set(best[0]) < set(best[1]) < set(best[2])


def test_each_section_has_a_page_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(reactions, "section", lambda options: Section("Some text."))
    main(["zero_shot", "reactions", "--quick", "--docs", str(tmp_path)])
    text = (tmp_path / "benchmarks" / "zero_shot_reactions.md").read_text()
    assert text.startswith(
        "# Benchmark: zero_shot reactions\n\nA fine-tuned classifier"
    )
    assert "Some text." in sections_of(text)["reactions"]
