"""What holds in every test: seeded, and no memory that nobody wrote."""

import pytest
import torch
from hypothesis import HealthCheck, settings

# Times vary with the machine; examples must not.
settings.register_profile(
    "hsa_pyg",
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("hsa_pyg")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _poisoned_empty():
    """``torch.empty`` and its kin give NaN: a row that no pass wrote is seen.

    PyTorch fills memory only in deterministic mode; operators without a deterministic
    form shall warn and not fail, as they would without this fixture.
    """
    mode = torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.utils.deterministic.fill_uninitialized_memory = filled
    torch.set_deterministic_debug_mode(mode)
