import pytest
import torch

from hsa_pyg.experiments.learning import vertex_training
from hsa_pyg.experiments.learning.vertex_training import VertexTask, VertexTraining


class Points(VertexTask):
    """Thirty points, of which the first ten are trained on; dropout draws numbers."""

    def __init__(self):
        torch.manual_seed(0)
        self.x = torch.randn(30, 4)
        net = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(4, 2))
        part = torch.arange(30) // 10
        parts = {name: part == i for i, name in enumerate(("train", "val", "test"))}
        super().__init__(net, (self.x[:, 0] > 0).long(), parts, {})

    def batches(self):
        yield from torch.randperm(30).split(8)

    def logits(self, vertices):
        return self.model(self.x[vertices])

    @torch.no_grad()
    def all_logits(self):
        self.model.eval()
        return self.model(self.x)

    def num_leaves(self):
        return 30

    def attention_flops(self):
        return 0


def training(**options):
    options = {"lr": 0.05, "weight_decay": 0.0, "epochs": 6, "patience": 0, **options}
    return VertexTraining(Points(), **options)


def numbers(history):
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in history]


def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path):
    whole = training()
    for _ in range(6):
        whole.run_epoch()
    begun = training()
    for _ in range(3):
        begun.run_epoch()
    begun.save(tmp_path / "some" / "checkpoint.pt")
    resumed = training()
    torch.manual_seed(99)
    resumed.load(tmp_path / "some" / "checkpoint.pt")
    while not resumed.finished:
        resumed.run_epoch()
    assert numbers(resumed.history) == numbers(whole.history)
    assert resumed.test() == whole.test()


def test_an_older_checkpoint_has_no_clock_of_the_processor(tmp_path):
    begun = training()
    begun.run_epoch()
    del begun.history[0]["processor_seconds"]
    begun.save(tmp_path / "checkpoint.pt")
    resumed = training()
    resumed.load(tmp_path / "checkpoint.pt")
    resumed.run_epoch()
    there = ["processor_seconds" in row for row in resumed.history]
    assert there == [False, True]


def test_attention_has_run_before_the_clock_starts(monkeypatch):
    warmed = []
    monkeypatch.setattr(vertex_training, "warm_up", warmed.append)
    begun = training()
    assert warmed == [begun.task.model]


def test_the_best_epoch_is_tested():
    run = training(epochs=5)
    while not run.finished:
        run.run_epoch()
    keys = [(row["val_accuracy"], -row["val_loss"]) for row in run.history]
    found = run.test()
    assert found["best_epoch"] == keys.index(max(keys))
    assert found["val_accuracy"] == max(keys)[0]
    logits = run.task.all_logits()
    right = logits.argmax(1) == run.task.y
    assert found["test_accuracy"] == float(right[20:].float().mean())


def test_classes_of_other_parts_do_not_matter_in_training():
    one, other = training(), training()
    other.task.y[10:] = 1 - other.task.y[10:]
    for run in (one, other):
        torch.manual_seed(1)
        run.run_epoch()
    assert one.history[0]["train_loss"] == other.history[0]["train_loss"]
    for a, b in zip(
        one.task.model.parameters(), other.task.model.parameters(), strict=True
    ):
        assert torch.equal(a, b)


def test_patience_ends_the_training():
    run = training(lr=0.0, epochs=50, patience=3)
    while not run.finished:
        run.run_epoch()
    assert len(run.history) == 4
    assert run.stopped_early


def test_a_loss_that_is_not_finite_is_an_error():
    run = training()
    with torch.no_grad():
        run.task.model[1].bias.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="epoch 0"):
        run.run_epoch()


def test_state_that_nobody_asked_for_is_refused():
    with pytest.raises(ValueError, match="has no state"):
        Points().load_state({"x": 1})
