"""The weights that a trained model gives to blocks, layer by layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hsa_pyg.data import NestedSignal
from hsa_pyg.hierarchy import SignalHierarchy
from hsa_pyg.nn import HSAConv
from hsa_pyg.nn.flat_attention import FlatConv
from hsa_pyg.ops.weights import FamilyWeights

#: Weights of one layer, heads counted, up to which they are collected: 256 MiB.
MAX_WEIGHTS = 64_000_000


def collect_block_weights(
    model: torch.nn.Module, signal: NestedSignal
) -> list[FamilyWeights]:
    """Run a model on a signal and keep the attention weights of all its layers.

    The model runs as in evaluation, without dropout, on the device it is on; neither it
    nor the signal is changed.

    Args:
        model: a model of signals with :class:`~hsa_pyg.nn.HSAConv` layers, such as
            :class:`~hsa_pyg.nn.HSATransformer`.
        signal: a signal, or a batch of them.

    Returns:
        The weights of each layer, in the order in which they ran, on the CPU: between
        the siblings C and B ``pair_index`` [2, S] and ``pair_weight`` [S, H], of the
        leaves on themselves ``self_weight`` [N, H].

    Raises:
        ValueError: if no such layer runs (flat attention has no blocks), or the signal
            has too many pairs of siblings.

    Example:
        >>> from hsa_pyg.datasets import FakeNestedDataset
        >>> from hsa_pyg.nn import HSATransformer
        >>> data = FakeNestedDataset(num_samples=1)
        >>> model = HSATransformer.from_schema(
        ...     data.schema, 2, channels=8, heads=2, vocab_sizes=data.vocab_sizes
        ... )
        >>> first, second = collect_block_weights(model, data[0])
        >>> first.pair_weight.size(1)
        2
    """
    layers = attention_layers(model)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    # A shallow copy: .to() moves a signal in place.
    moved = copy.copy(signal).to(device)
    check_size(moved.hierarchy, max(layer.heads for layer in layers))
    collected: list[FamilyWeights] = []

    def keep(layer: HSAConv, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        again = {**kwargs, "return_attention_weights": True}
        _, (index, weight) = layer.forward(*args, **again)
        hierarchy = args[1] if len(args) > 1 else kwargs["hierarchy"]
        collected.append(_split(index, weight, hierarchy))

    watch_layers(layers, keep, lambda: run_model(model, moved))
    return collected


def attention_layers(model: torch.nn.Module) -> list[HSAConv]:
    """The layers of hierarchical attention of a model.

    Raises:
        ValueError: if there are none, or some are flat.
    """
    layers = [module for module in model.modules() if isinstance(module, HSAConv)]
    if not layers or any(isinstance(layer, FlatConv) for layer in layers):
        kind = "flat attention" if layers else "no layer of hierarchical attention"
        raise ValueError(
            f"the model has {kind}, so there are no block weights to show; train one "
            "with attention='hsa'"
        )
    return layers


def watch_layers(
    layers: Sequence[HSAConv], watch: Callable[..., None], run: Callable[[], Any]
) -> None:
    """Call ``watch(layer, args, kwargs, output)`` for each layer that runs in ``run``.

    Nothing of that stays with the layers, also when ``run`` fails.
    """
    hooks = [layer.register_forward_hook(watch, with_kwargs=True) for layer in layers]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()


def run_model(model: torch.nn.Module, signal: NestedSignal) -> Tensor:
    """The output of a model as in evaluation; its modules' modes stay as they were."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return evaluate(model, copy.copy(signal).to(device))


def evaluate(model: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Call a model as in evaluation, without gradients; its modes stay as they were."""
    training = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            return model(*args, **kwargs)
    finally:
        for module, mode in training.items():
            module.training = mode


def _split(index: Tensor, weight: Tensor, hierarchy: Any) -> FamilyWeights:
    leaves = int((index[0] == index[1]).sum())
    if isinstance(hierarchy, SignalHierarchy):
        leaves = hierarchy.num_leaves
    pairs = index.size(1) - leaves
    return FamilyWeights(
        index[:, :pairs].cpu(), weight[:pairs].float().cpu(), weight[pairs:].cpu()
    )


def check_size(hierarchy: SignalHierarchy, heads: int) -> None:
    """Refuse more pairs of siblings than :data:`MAX_WEIGHTS`.

    Raises:
        ValueError: if there are more.
    """
    member = (hierarchy.parent >= 0) & (hierarchy.leaf_counts > 0)
    family = torch.bincount(hierarchy.parent[member])
    weights = int((family * (family - 1)).sum()) * heads
    if weights > MAX_WEIGHTS:
        raise ValueError(
            f"a layer has {weights:,} weights, as the largest family has "
            f"{hierarchy.max_branching:,} members; at most {MAX_WEIGHTS:,} are "
            "collected: cut the signal, or give large families a level more"
        )
