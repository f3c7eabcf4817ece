import pytest
from torch_geometric.data import Batch

from hsa_pyg.analysis.counted_flops import counted_flops
from hsa_pyg.experiments.learning.building import attention_flops, build_model
from hsa_pyg.experiments.learning.settings import LearningSettings, complete_settings
from hsa_pyg.experiments.learning.task import Task
from tests.experiments.learning.tiny_data import SCHEMA, two_paragraphs

SIGNALS = [two_paragraphs(), two_paragraphs()]
TASK = Task(
    SIGNALS,
    SIGNALS,
    SIGNALS,
    schema=SCHEMA,
    vocab_sizes={"token": 7},
    outputs=3,
    domains=dict.fromkeys(SCHEMA.internal_types, "sequence"),
)


def made(**settings):
    chosen = {"channels": 8, "layers": 2, "heads": 2, "position_channels": 4}
    complete = complete_settings(LearningSettings(**{**chosen, **settings}))
    return complete, build_model(complete, TASK)


@pytest.mark.parametrize(
    "model", ["hsa", "flat", "deepset", "segment", "hgt", "gps", "performer"]
)
def test_every_model_is_built_and_its_attention_counted(model):
    settings, built = made(model=model, window=4)
    batch = Batch.from_data_list(SIGNALS)
    assert built(batch).shape == (2, 3)
    forward, backward = (
        attention_flops(settings, built, batch.hierarchy, backward=one)
        for one in (False, True)
    )
    # Two trees of 7 leaves and 15 nodes; 2 layers; scores of 8 channels.
    pairs, nodes, edges = 2 * 7 * 7, 2 * 15 * 15, 2 * 2 * 14
    # Windows of 4 and 3 leaves with a vector each, then the vectors of 2.
    segments = 2 * (5 * 5 + 4 * 4) + 2 * 2 * 2
    expected = {
        "flat": 2 * 2 * 24 * pairs,
        "deepset": 0,
        "segment": 2 * 24 * segments,
        "hgt": 2 * 32 * edges,
        "gps": 2 * 32 * nodes,
        # int(4 log 4) = 5 random features.
        "performer": 2 * 2 * 4 * 8 * 5 * 30,
    }
    if model == "hsa":
        counted = counted_flops(batch.hierarchy, 8, 2, position_channels=8).hsa
        expected["hsa"] = 2 * counted
        assert counted < expected["flat"] / 2
    assert forward == expected[model]
    assert backward >= 2 * forward


def test_mlps_may_have_a_width_of_their_own():
    for block in ("paper", "pre_norm"):
        for model in ("hsa", "flat", "deepset"):
            _, built = made(model=model, hidden=5, block=block)
            widths = {
                (name.split(".")[1], tuple(weight.shape))
                for name, weight in built.named_parameters()
                if ".mlp." in name and weight.ndim == 2
            }
            assert widths == {(i, size) for i in "01" for size in ((5, 8), (8, 5))}
            _, usual = made(model=model, block=block)
            assert usual.blocks[0].mlp[0].weight.shape == (16, 8)


def test_positions_cost_as_much_as_scores():
    settings, built = made(model="flat", position=False)
    hierarchy = Batch.from_data_list(SIGNALS).hierarchy
    assert built.position is None
    assert attention_flops(settings, built, hierarchy) == 2 * 2 * 16 * 98


def test_a_task_may_have_models_of_its_own():
    seen = {}

    def make(name, schema, out_channels, channels, **kwargs):
        seen.update(kwargs, name=name, channels=channels, outputs=out_channels)
        return "a model"

    task = Task(
        SIGNALS, SIGNALS, SIGNALS, SCHEMA, {}, outputs=1, kind="regression", model=make
    )
    settings = complete_settings(
        LearningSettings(task="esol", model="gine-hsa", channels=8, heads=2)
    )
    assert build_model(settings, task) == "a model"
    assert seen == {
        **{"name": "gine-hsa", "channels": 8, "outputs": 1, "num_layers": 2},
        **{"heads": 2, "expansion": 2, "readout": "mean", "dropout": 0.1},
    }
