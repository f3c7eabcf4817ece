import pytest
import torch

from hsa_pyg.experiments.models import (
    ParameterCount,
    count_parameters,
    make_model,
    matching_channels,
)
from hsa_pyg.nn import HierarchicalPosition

EXTRAS = {"segment": {"segment": "sentence"}}
#: Parameters outside of the encoder, as multiples of those of HSA at the same width.
SHARES = {
    "flat": (1.0, 1.0),
    "deepset": (0.3, 0.6),
    "segment": (1.0, 1.4),
    "gps": (0.8, 1.4),
    "performer": (0.8, 1.4),
    "hgt": (1.5, 3.5),
}


def model_of(name, schema, channels=64, **options):
    domains = dict.fromkeys(("document", "paragraph", "sentence"), "sequence")
    return make_model(
        name,
        schema,
        2,
        channels,
        vocab_sizes={"token": 100},
        position=HierarchicalPosition(domains, 16),
        **EXTRAS.get(name, {}),
        **options,
    )


def test_what_is_counted():
    model = torch.nn.Module()
    model.encoder, model.head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
    assert count_parameters(model) == ParameterCount(encoder=9, body=4)
    model.encoder.weight.requires_grad_(False)
    model.register_buffer("table", torch.ones(5))
    assert count_parameters(model).total == 7
    assert count_parameters(torch.nn.Linear(2, 3)) == ParameterCount(0, 9)


@pytest.mark.parametrize("name", SHARES)
def test_models_of_one_width_are_of_like_size(schema, name):
    hsa, other = (count_parameters(model_of(n, schema)) for n in ("hsa", name))
    assert other.encoder == hsa.encoder
    least, most = SHARES[name]
    assert least <= other.body / hsa.body <= most


def test_the_width_of_as_many_parameters(schema):
    body = count_parameters(model_of("hsa", schema)).body

    def make(channels):
        return model_of("hgt", schema, channels)

    channels = matching_channels(make, body, range(8, 129, 4))
    assert channels < 64
    assert 0.85 < count_parameters(make(channels)).body / body < 1.15
    with pytest.raises(ValueError, match="no width"):
        matching_channels(make, body, [])


def test_the_encoder_plays_no_part_in_the_width():
    def make(channels):
        model = torch.nn.Module()
        model.encoder = torch.nn.Linear(100, channels)
        model.head = torch.nn.Linear(channels, 1)
        return model

    assert matching_channels(make, 9, [2, 4, 8]) == 8
