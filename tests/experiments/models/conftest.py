"""The models that all tests here try."""

import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models import make_model
from hsa_pyg.nn import HierarchicalPosition
from tests.experiments.models.documents import SAMPLES

#: Every model that is no transformer of the package, with what it needs besides.
BASELINES = {
    "segment": {"segment": "sentence"},
    "segment-depth": {"segment": 1},
    "segment-window": {"window": 2},
    "segment-late": {"segment": "sentence", "layout": "late", "num_layers": 4},
    "hgt": {},
    "hgt-root": {"readout": "root", "num_layers": 3},
    "gps": {},
    "gps-gat": {"local": "gat"},
    "gps-root": {"readout": "root"},
    "performer": {},
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def samples():
    return SAMPLES


@pytest.fixture
def batch():
    return Batch.from_data_list(SAMPLES)


@pytest.fixture
def schema():
    return Schema.of(SAMPLES[0])


@pytest.fixture(params=BASELINES)
def baseline(request):
    """A function that makes one of the models."""
    name, _, _ = request.param.partition("-")
    own = BASELINES[request.param]

    def make(position=True, **options):
        if position:
            domains = dict.fromkeys(("document", "paragraph", "sentence"), "sequence")
            options["position"] = HierarchicalPosition(domains, 8)
        encoding = {} if "encoder" in options else {"vocab_sizes": {"token": 10}}
        options = {"channels": 16, "heads": 2, **encoding, **own, **options}
        return make_model(name, Schema.of(SAMPLES[0]), 3, **options)

    return make
