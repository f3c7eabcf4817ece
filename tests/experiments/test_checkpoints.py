import pytest
import torch

from hsa_pyg.cli import SettingsError
from hsa_pyg.experiments.checkpoints import load_checkpoint


def test_a_whole_one_is_read(tmp_path):
    torch.save({"epoch": 3, "x": torch.ones(2)}, tmp_path / "checkpoint.pt")
    assert load_checkpoint(tmp_path / "checkpoint.pt")["epoch"] == 3


@pytest.mark.parametrize("held", [b"", b"no checkpoint", b"PK\x03\x04 half of one"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_damaged_one_is_named_with_what_to_do(tmp_path, held, weights_only):
    (tmp_path / "checkpoint.pt").write_bytes(held)
    with pytest.raises(SettingsError, match=r"is damaged .* delete the folder"):
        load_checkpoint(tmp_path / "checkpoint.pt", weights_only=weights_only)
