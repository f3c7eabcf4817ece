import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.learning.vertex_settings import (
    VertexSettings,
    complete_settings,
)
from hsa_pyg.experiments.learning.vertex_training import VertexTraining
from hsa_pyg.experiments.learning.website import (
    WordsWithout,
    gimp_manual,
    page_kinds,
    sqlite_site,
)
from tests.experiments.learning import small_sources


def load(loader, tmp_path, **options):
    options = {"task": "sqlite-site", "channels": 8, "heads": 2, **options}
    settings = complete_settings(VertexSettings(**options))
    return loader(settings, tmp_path / "data", tmp_path / "cache")


def test_words_that_tell_the_label_are_no_tokens():
    encode = WordsWithout(["tool"])
    text = "Tools: the crop tool"
    (found,) = encode([text])
    assert [text[a:b] for a, b in found.spans] == [":", "the", "crop"]
    assert len(found.ids) == 3
    assert "tool" in repr(encode)


def test_small_kinds_are_one_kind():
    names = [f"gimp-tool-{i}.html" for i in range(12)] + ["gimp-view-1.html", "a.html"]
    kinds = page_kinds(names)
    assert set(kinds.values()) == {"gimp-tool", "other"}
    assert kinds["gimp-view-1.html"] == kinds["a.html"] == "other"


def test_folders_of_the_documentation_are_classes(tmp_path):
    small_sources.write_sqlite_site(tmp_path / "data")
    task = load(sqlite_site, tmp_path)
    assert task.facts["classes"] == {"c3ref": 6, "manual": 6}
    sizes = {part: task.facts[f"{part} pages"] for part in task.parts}
    assert sizes == {"train": 4, "val": 4, "test": 4}
    assert not (task.parts["train"] & task.parts["test"]).any()
    assert task.links.size(1) == 12
    assert task.num_leaves() == task.facts["leaves"] > 0


def test_pages_of_a_manual_have_their_pictures(tmp_path):
    small_sources.write_gimp_manual(tmp_path / "data")
    task = load(gimp_manual, tmp_path, task="gimp-manual")
    assert sum(page["patch"].num_nodes for page in task.pages) > 0
    words = load(gimp_manual, tmp_path, task="gimp-manual", model="words")
    assert words.attention_flops() == 0
    assert torch.allclose(words.words.norm(dim=1), torch.ones(25))
    flat = load(gimp_manual, tmp_path, task="gimp-manual", model="flat")
    assert 0 < task.attention_flops() < flat.attention_flops()
    # Two passes forward, of scores, positions and values, and one backward, by layer.
    leaves = sum(
        sum(store.x.size(0) for store in page.node_stores if "x" in store) ** 2
        for page in flat.pages
    )
    channels, layers = flat.settings.channels, flat.settings.layers
    passes = 2 * 2 * 3 + 2 * (3 * 2 + 2)
    assert flat.attention_flops() == passes * channels * leaves * layers


def test_vectors_of_other_pages_are_remembered(tmp_path):
    small_sources.write_sqlite_site(tmp_path / "data")
    torch.manual_seed(0)
    task = load(sqlite_site, tmp_path, batch_size=5, dropout=0.0)
    list(task.batches())
    before = task.remembered.clone()
    assert before.abs().sum(1).gt(0).all()
    task.logits(torch.tensor([3]))
    with torch.no_grad():
        task.model.head.weight.add_(1.0)
        next(task.model.pages.parameters()).add_(0.1)
    task.logits(torch.tensor([3, 7]))
    changed = (task.remembered != before).any(1)
    assert changed.nonzero().view(-1).tolist() == [3, 7]
    other = load(sqlite_site, tmp_path)
    other.load_state(task.state())
    assert torch.equal(other.remembered, task.remembered)


def test_linked_pages_are_learned(tmp_path):
    small_sources.write_sqlite_site(tmp_path / "data")
    torch.manual_seed(0)
    task = load(sqlite_site, tmp_path, model="words", dropout=0.0)
    run = VertexTraining(task, lr=0.01, weight_decay=0.0, epochs=15, patience=0)
    while not run.finished:
        run.run_epoch()
    assert run.test()["test_accuracy"] == 1.0


def test_a_manual_that_is_not_there_says_where_to_get_it(tmp_path):
    with pytest.raises(SettingsError, match="gimp-help-en"):
        load(gimp_manual, tmp_path, task="gimp-manual")
