import pytest
import torch
from torch_geometric.loader import DataLoader

from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.datasets.signals_on_disk import SignalsOnDisk


class Pixels(SignalsOnDisk):
    """Ten random signals with pixels."""

    @property
    def raw_file_names(self):
        return []

    @property
    def processed_file_names(self):
        return ["signals.db"]

    def download(self):
        pass

    def process(self):
        for signal in source():
            signal["patch"].x = bounded(signal)
            self.append(signal)
        self.close()


def source():
    return FakeNestedDataset(10, vocab_sizes={"word": 9}, in_channels={"patch": 3})


def bounded(signal):
    return signal["patch"].x.clamp(0, 1)


def test_signals_come_back_with_pixels_in_256_steps(tmp_path):
    stored = Pixels(tmp_path, log=False)
    assert len(stored) == 10
    for signal, original in zip(stored, source(), strict=True):
        assert signal.validate()
        assert signal.schema == original.schema
        assert signal["word"].x.equal(original["word"].x)
        difference = signal["patch"].x - bounded(original)
        assert signal["patch"].x.dtype == torch.float
        assert difference.abs().max() <= 0.5 / 255 + 1e-6


def test_parts_of_the_data_set_are_loaded_as_they_are_indexed(tmp_path):
    stored = Pixels(tmp_path, log=False)
    (batch,) = DataLoader(stored[6:], batch_size=4)
    for place in range(4):
        assert batch[place]["word"].x.equal(stored[6 + place]["word"].x)
    (batch,) = DataLoader(stored[[8, 2]], batch_size=2)
    assert batch[1]["word"].x.equal(stored[2]["word"].x)


def test_transforms_are_applied_once(tmp_path):
    stored = Pixels(tmp_path, transform=count, log=False)
    assert stored[0].count == 1
    (batch,) = DataLoader(stored[:3], batch_size=3)
    assert batch.count.tolist() == [1, 1, 1]


def count(signal):
    signal.count = 1 + (signal.count if "count" in signal else 0)
    return signal


def test_processing_again_replaces_what_was_there(tmp_path):
    assert len(Pixels(tmp_path, log=False)) == 10
    assert len(Pixels(tmp_path, log=False, force_reload=True)) == 10


class Interrupted(Pixels):
    """Is stopped after some signals, once."""

    stopped = False

    def process(self):
        if not self.stopped:
            type(self).stopped = True
            self.append(source()[0])
            raise KeyboardInterrupt
        super().process()


def test_what_was_not_finished_is_made_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Interrupted(tmp_path, log=False)
    assert list((tmp_path / "processed").glob("signals*")) == []
    assert len(Interrupted(tmp_path, log=False)) == 10


class Overtaken(Pixels):
    """Another data set makes the same files meanwhile."""

    overtaken = False

    def process(self):
        if not self.overtaken:
            type(self).overtaken = True
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("os.getpid", lambda: -1)
                assert len(Overtaken(self.root, log=False)) == 10
        super().process()


def test_two_may_be_made_at_once(tmp_path):
    stored = Overtaken(tmp_path, log=False)
    assert len(stored) == 10
    assert stored[9].validate()
    assert [path.name for path in (tmp_path / "processed").glob("signals*")] == [
        "signals.db"
    ]


def test_a_file_that_is_no_database_is_named(tmp_path):
    Pixels(tmp_path, log=False)
    (tmp_path / "processed/signals.db").write_bytes(b"nothing of this kind" * 99)
    again = Pixels(tmp_path, log=False)
    with pytest.raises(ValueError, match=r"signals.db' cannot be read.*force_reload"):
        again[0]
