import pytest
from torch_geometric.nn.attention import PerformerAttention

from hsa_pyg.experiments.models import MODELS, make_model
from hsa_pyg.nn import HierarchicalPosition, LeafEncoder

EXTRAS = {"segment": {"segment": "sentence"}}


@pytest.mark.parametrize("name", MODELS)
def test_all_models_are_made_and_called_alike(name, schema, batch):
    domains = dict.fromkeys(("document", "paragraph", "sentence"), "sequence")
    common = {
        "num_layers": 2,
        "heads": 2,
        "dropout": 0.2,
        "readout": "attention",
        "position": HierarchicalPosition(domains, 8),
        **EXTRAS.get(name, {}),
    }
    model = make_model(name, schema, 3, 16, vocab_sizes={"token": 10}, **common)
    assert model(batch).shape == (5, 3)
    encoder = LeafEncoder.from_schema(schema, 16, {"token": 10})
    model = make_model(name, schema, 3, 16, encoder=encoder, **common)
    assert model(batch).shape == (5, 3)
    with pytest.raises(ValueError, match="either 'encoder' or 'vocab_sizes'"):
        make_model(name, schema, 3, 16, encoder=encoder, vocab_sizes={}, **common)
    with pytest.raises(ValueError, match="'channels' is 32, but the encoder gives"):
        make_model(name, schema, 3, 32, encoder=encoder, **common)


def test_a_model_that_is_not_there(schema):
    with pytest.raises(ValueError, match=r"one of \['hsa', 'flat', .*got 'mamba'"):
        make_model("mamba", schema, 3)


@pytest.mark.parametrize("name", MODELS)
def test_fewer_layers_than_none(name, schema):
    with pytest.raises(ValueError, match="'num_layers' must"):
        make_model(
            name,
            schema,
            3,
            16,
            vocab_sizes={"token": 10},
            num_layers=-1,
            **EXTRAS.get(name, {}),
        )


def test_typed_layers_without_heads(schema):
    with pytest.raises(ValueError, match="'heads' at least 1"):
        make_model("hgt", schema, 3, 16, vocab_sizes={"token": 10}, heads=0)


def test_only_the_performer_attends_linearly(schema):
    for name in ("gps", "performer"):
        model = make_model(name, schema, 3, 16, vocab_sizes={"token": 10}, heads=2)
        linear = [isinstance(x, PerformerAttention) for x in model.modules()]
        assert any(linear) == (name == "performer")
