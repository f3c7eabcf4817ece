import pytest
import torch
from torch.nn import functional as F

from hsa_pyg.experiments.semantic_focus.attention import DenseAttention, TreeAttention
from hsa_pyg.experiments.semantic_focus.model import (
    FocusTransformer,
    ModelShape,
    sinusoid,
)
from hsa_pyg.experiments.semantic_focus.sequences import window_tree
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.ops.patterns import banded, blocklocal
from tests.experiments.semantic_focus.plain_twin import PlainModel, masks

NUMBER, LENGTH = 3, 13


def flat_trees():
    tree = torch.from_numpy(window_tree(LENGTH, []))
    trees = [torch.where(tree < 0, -1, tree + i * tree.numel()) for i in range(NUMBER)]
    return SignalHierarchy.from_parents(torch.cat(trees))


CASES = {
    "full": (lambda: DenseAttention(NUMBER, LENGTH), {"kind": "full"}),
    "full, as a tree": (lambda: TreeAttention(flat_trees()), {"kind": "full"}),
    "topk": (lambda: TreeAttention(flat_trees(), top_k=5), {"kind": "topk", "k": 5}),
    "topk, torch": (
        lambda: TreeAttention(flat_trees(), top_k=5, backend="torch"),
        {"kind": "topk", "k": 5},
    ),
    "banded": (
        lambda: DenseAttention(NUMBER, LENGTH, banded(5, 1)),
        {"kind": "banded", "width": 5, "num_global": 1},
    ),
    "banded, as a tree": (
        lambda: TreeAttention(flat_trees(), pattern=banded(4)),
        {"kind": "banded", "width": 4},
    ),
    "blocklocal": (
        lambda: DenseAttention(NUMBER, LENGTH, blocklocal(5)),
        {"kind": "blocklocal", "width": 5},
    ),
}


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_are_those_of_a_plain_twin(case, heads):
    make, mask = CASES[case]
    torch.manual_seed(0)
    shape = ModelShape(4, 3, blocks=2, heads=heads, hidden=32)
    model, twin = FocusTransformer(shape), PlainModel(shape)
    twin.copy_from(model)
    tokens = torch.randint(4, (NUMBER, LENGTH))
    labels = torch.randint(3, (NUMBER,))
    logits = model(tokens, make())
    expected = twin(tokens, masks(length=LENGTH, **mask), mask.get("k"))
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    F.cross_entropy(logits, labels).backward()
    F.cross_entropy(expected, labels).backward()
    found = [parameter.grad for parameter in model.parameters()]
    for mine, theirs in zip(found, twin.gradients(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "mish"])
def test_the_other_activations_differentiate(activation):
    torch.manual_seed(1)
    shape = ModelShape(4, 3, blocks=1, activation=activation)
    model, twin = FocusTransformer(shape), PlainModel(shape)
    twin.copy_from(model)
    tokens = torch.randint(4, (NUMBER, LENGTH))
    model(tokens, DenseAttention(NUMBER, LENGTH)).square().sum().backward()
    twin(tokens, masks("full", LENGTH)).square().sum().backward()
    found = [parameter.grad for parameter in model.parameters()]
    for mine, theirs in zip(found, twin.gradients(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("vocabulary", "classes", "blocks", "number"),
    [(3, 2, 5, 125_122), (16, 10, 10, 251_274)],
)
def test_parameters_are_as_many_as_in_the_paper(vocabulary, classes, blocks, number):
    model = FocusTransformer(ModelShape(vocabulary, classes, blocks))
    assert sum(p.numel() for p in model.parameters()) == number


def test_weights_start_as_the_protocol_says():
    torch.manual_seed(0)
    model = FocusTransformer(ModelShape(100, 50, 1))
    for weight in (model.embedding.weight, model.classifier.weight):
        assert 0.09 < weight.abs().max() <= 0.1
    assert model.classifier.bias.abs().max() == 0
    for layer in model.blocks[0]:
        assert 0.11 < layer.weight.abs().max() <= 0.125
        assert 0.05 < layer.bias.abs().max() <= 0.125


@pytest.mark.parametrize("tree", [False, True])
def test_dropout_differentiates_what_it_left(tree):
    """Gradients under dropout are those of finite differences with the same draws."""
    torch.manual_seed(0)
    generator = torch.Generator()
    shape = ModelShape(4, 3, blocks=1)
    model = FocusTransformer(shape, dropout=0.3, generator=generator).double()
    attention = (
        TreeAttention(flat_trees(), dropout=0.3)
        if tree
        else DenseAttention(NUMBER, LENGTH)
    )
    tokens = torch.randint(4, (NUMBER, LENGTH))

    def loss():
        generator.manual_seed(7)
        return model(tokens, attention).square().sum()

    loss().backward()
    for parameter in model.parameters():
        direction = torch.randn_like(parameter)
        with torch.no_grad():
            parameter.add_(direction, alpha=1e-6)
            above = loss()
            parameter.add_(direction, alpha=-2e-6)
            below = loss()
            parameter.add_(direction, alpha=1e-6)
        slope = (above - below) / 2e-6
        expected = (parameter.grad * direction).sum()
        torch.testing.assert_close(slope, expected, rtol=1e-4, atol=1e-5)


def test_dropout_rests_in_evaluation():
    model = FocusTransformer(ModelShape(4, 3, 1), dropout=0.5)
    tokens, attention = torch.randint(4, (2, 6)), DenseAttention(2, 6)
    assert not torch.equal(model(tokens, attention), model(tokens, attention))
    model.eval()
    assert torch.equal(model(tokens, attention), model(tokens, attention))


def test_expectation_under_dropout_is_kept():
    torch.manual_seed(0)
    model = FocusTransformer(ModelShape(4, 3, 1), dropout=0.1)
    tokens, attention = torch.randint(4, (2, 6)), DenseAttention(2, 6)
    with torch.no_grad():
        drawn = torch.stack([model(tokens, attention) for _ in range(2_000)])
        exact = model.eval()(tokens, attention)
    # The model is nearly linear at its start.
    spread = drawn.std(0) / 2_000**0.5
    assert ((drawn.mean(0) - exact).abs() < 6 * spread + 0.02).all()


def test_places_are_told_by_sines_and_cosines():
    table = sinusoid(5, 4)
    expected = torch.tensor([0.8415, 0.5403, 0.0100, 0.9999])
    torch.testing.assert_close(table[1], expected, rtol=0, atol=1e-4)


def test_a_model_that_cannot_be_made_is_refused():
    with pytest.raises(ValueError, match="activation must be one of"):
        FocusTransformer(ModelShape(3, 2, activation="tanh"))
    with pytest.raises(ValueError, match="width must be even"):
        FocusTransformer(ModelShape(3, 2, channels=63))
