import os

import pytest
import torch

from hsa_pyg.datasets import FakeNestedDataset
from hsa_pyg.datasets.stored_whole import StoredWhole, write_whole


class Kept(StoredWhole):
    """Some signals, kept in one file."""

    processed_file_names = "signals.pt"

    def __init__(self, root):
        super().__init__(root, log=False)
        self.load(self.processed_paths[0])

    def process(self):
        self.save(list(FakeNestedDataset(4)), self.processed_paths[0])


def test_signals_that_were_not_written_to_the_end_are_made_again(tmp_path, monkeypatch):
    def killed(content, path):
        with open(path, "wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("torch_geometric.io.fs.torch_save", killed)
        with pytest.raises(KeyboardInterrupt):
            Kept(tmp_path)
    assert os.listdir(tmp_path / "processed") == []
    kept = Kept(tmp_path)
    assert len(kept) == 4
    assert kept[3].validate()
    torch.load(kept.processed_paths[0], weights_only=True)


def test_a_text_replaces_another(tmp_path):
    write_whole(tmp_path / "a.json", "1")
    write_whole(tmp_path / "a.json", "é")
    assert (tmp_path / "a.json").read_text("utf-8") == "é"
    assert os.listdir(tmp_path) == ["a.json"]
