import pytest
import torch
from torch_geometric.data import Batch

from hsa_pyg.data import Schema
from hsa_pyg.experiments.models import SegmentTransformer
from hsa_pyg.experiments.models.segment_transformer import SegmentAttention
from hsa_pyg.experiments.models.segments import segments_by_depth, segments_by_window
from hsa_pyg.nn import FlatConv
from tests.experiments.models.documents import document


def model_of(schema, **options):
    options = {"segment": "sentence", "heads": 2, **options}
    return SegmentTransformer.from_schema(
        schema, 3, 16, vocab_sizes={"token": 10}, **options
    )


def test_layouts(schema):
    assert model_of(schema, num_layers=5).across == [False, True, False, True, False]
    late = model_of(schema, num_layers=5, layout="late").across
    assert late == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 3}, "give either 'segment'"),
        ({"segment": None}, "give either 'segment'"),
        ({"num_layers": 1}, "'num_layers' must be at least 2"),
        ({"layout": "early"}, "'layout' must be 'interleaved' or 'late'"),
        ({"heads": 3}, "divisible by the number of heads"),
    ],
)
def test_arguments_that_cannot_be(schema, options, message):
    with pytest.raises(ValueError, match=message):
        model_of(schema, **options)


def test_within_segments_a_leaf_sees_its_segment_alone(schema):
    within = model_of(schema).eval().blocks[0]
    h = document([[1, 2], [3]]).hierarchy
    segments = segments_by_depth(h, 2)
    x = torch.randn(5, 16)
    other = x.clone()
    other[2] = torch.randn(16)
    changed = within(x, h, segments=segments) - within(other, h, segments=segments)
    # The third leaf is alone in its sentence, whose vector comes last.
    assert (changed.abs().sum(1) > 1e-4).tolist() == [False, False, True, False, True]


def test_across_segments_they_hear_of_each_other(schema):
    model = model_of(schema).eval()
    one, other = document([[1, 2], [3]]), document([[1, 2], [7]])
    assert not torch.allclose(
        model.embed(one)[0][0], model.embed(other)[0][0], atol=1e-5
    )


def test_a_segments_vector_is_a_leaf_more():
    """One segment: flat attention over its leaves and one that stands for it."""
    conv, flat = SegmentAttention(["token"], 16, 2, 0.0, None), FlatConv(16, 16, 2)
    same = conv.lin_segment.state_dict()
    conv.lin_leaf.by_type["token"].load_state_dict(same)
    flat.lin_qkv.shared.load_state_dict(same)
    flat.lin_out.load_state_dict(conv.lin_out.state_dict())
    x = torch.randn(5, 16)
    four, five = document([[1, 2], [3, 4]]), document([[1, 2], [3, 4, 5]])
    segments = segments_by_window(four.hierarchy, 99)
    torch.testing.assert_close(
        conv(x, four.hierarchy, segments), flat(x, five.hierarchy)
    )


def test_segments_of_any_level_in_ragged_batches(schema, samples):
    batch = Batch.from_data_list(samples)
    for segment in (1, 2, 3, "document", "paragraph"):
        assert model_of(schema, segment=segment)(batch).isfinite().all()
    with pytest.raises(ValueError, match="got 'chapter'"):
        model_of(schema, segment="chapter")(batch)


def test_attention_dropout_is_for_training(schema, samples):
    model = model_of(schema, attention_dropout=0.5, dropout=0.0)
    torch.manual_seed(0)
    first = model(samples[2])
    assert not torch.equal(first, model(samples[2]))
    model.eval()
    assert torch.equal(model(samples[2]), model(samples[2]))


def test_the_schema_may_have_leaves_of_one_type_alone():
    signal = document([[1, 2], [3]])
    del signal["image"], signal["image", "child_of", "document"]
    assert model_of(Schema.of(signal))(signal).shape == (1, 3)
