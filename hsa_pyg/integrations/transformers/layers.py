"""The attention layers of a model: which there are, and which cannot be replaced."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

Layers = str | Sequence[int] | Callable[[int], bool]

# Attributes of configurations of models with a bias that depends on distances.
_RELATIVE = (
    "relative_attention",
    "relative_attention_num_buckets",
    "use_relative_position_bias",
    "use_shared_relative_position_bias",
)
# Towers that are causal but keep no keys, so that untied queries can replace them.
_CAUSAL_TOWERS = ("clip_text_model",)


@dataclass(frozen=True)
class AttentionLayer:
    """One attention module of a model.

    Args:
        number: from 0, in the order of the model's modules.
        name: where the module is within the model.
        module: the module.
    """

    number: int
    name: str
    module: Any

    def __str__(self) -> str:
        return f"layer {self.number} ({type(self.module).__name__} at {self.name!r})"


def attention_layers(model: nn.Module) -> list[AttentionLayer]:
    """The attention modules of a model that go through the attention interface.

    Args:
        model: a model of transformers, or one that holds one.

    Returns:
        The layers, numbered from 0.

    Raises:
        TypeError: if it is no model.
        NotImplementedError: if it has none, or if they belong to several towers.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model must be a model of transformers, got {type(model).__name__}"
        )
    model = getattr(model, "_orig_mod", model)
    found = [
        AttentionLayer(0, name, module)
        for name, module in model.named_modules()
        if _uses_interface(module)
    ]
    if not found:
        raise NotImplementedError(_no_layers(model))
    configs = {id(_own_config(layer.module)) for layer in found}
    if len(configs) > 1:
        raise NotImplementedError(
            f"{type(model).__name__} has {len(configs)} towers: "
            f"{', '.join(_tower_names(found))}; replace them one by one, as in "
            "replace_attention(model.vision_model), or "
            "replace_attention(model.get_encoder())"
        )
    return [
        AttentionLayer(number, layer.name, layer.module)
        for number, layer in enumerate(found)
    ]


def _own_config(module: Any) -> Any:
    """The configuration that a module shares with its model, replaced or not."""
    layer = getattr(module.config, "hsa_pyg_layer", None)
    return module.config if layer is None else layer.config


def _uses_interface(module: nn.Module) -> bool:
    forward = inspect.unwrap(type(module).forward)
    code = getattr(forward, "__code__", None)
    names = () if code is None else code.co_names
    return "ALL_ATTENTION_FUNCTIONS" in names and hasattr(module, "config")


def _tower_names(found: Sequence[AttentionLayer]) -> list[str]:
    first: dict[int, str] = {}
    for layer in found:
        name = f"{type(layer.module).__name__} from {layer.name!r}"
        first.setdefault(id(_own_config(layer.module)), name)
    return list(first.values())


def _no_layers(model: nn.Module) -> str:
    other = [
        (name, module)
        for name, module in model.named_modules()
        if re.search("Attention$", type(module).__name__)
    ]
    where = "no attention module"
    if other:
        name, module = other[-1]
        where = f"{type(module).__name__} at {name!r}"
    reason = _relative_bias(getattr(model, "config", None)) or (
        "does not go through transformers' attention interface, or not in this release"
    )
    return (
        f"{type(model).__name__} cannot be replaced: it has {where}, which {reason}; "
        "take BERT, RoBERTa, DistilBERT, MiniLM, ELECTRA, ViT, DeiT or a tower of CLIP"
    )


def _relative_bias(config: Any) -> str | None:
    named = [name for name in _RELATIVE if getattr(config, name, None)]
    kind = getattr(config, "position_embedding_type", None)
    if isinstance(kind, str) and kind.startswith("relative"):
        named.append(f"position_embedding_type={kind!r}")
    if not named:
        return None
    return (
        f"adds a bias by relative position ({', '.join(named)}), different for each "
        "pair of tokens, while siblings share one score"
    )


def why_not(layer: AttentionLayer, tie_queries: bool) -> str | None:
    """Why a layer cannot be replaced, to follow its name; None if it can."""
    module, config = layer.module, layer.module.config
    kind = type(module).__name__
    if "CrossAttention" in kind or getattr(module, "is_cross_attention", False):
        return "is cross-attention: its queries and keys are not of the same tokens"
    relative = _relative_bias(config)
    if relative is not None:
        return relative
    for name in ("sliding_window", "window_size"):
        if getattr(module, name, None) is not None or name in vars(config):
            return f"attends within windows of its own ({name})"
    if is_causal_tower(config):
        if not tie_queries:
            return None
        return (
            "is causal: the mean query of a node knows of later tokens; pass "
            "tie_queries=False"
        )
    causal = getattr(module, "is_causal", False) or getattr(module, "is_decoder", False)
    if causal or getattr(config, "is_decoder", False):
        return "is part of a causal decoder, which keeps the keys of earlier tokens"
    if getattr(module, "num_key_value_groups", 1) > 1:
        return "shares keys between heads (grouped queries)"
    running = config._attn_implementation
    if running not in (None, "eager", "sdpa"):
        return (
            f"runs attn_implementation={running!r}; call "
            "model.set_attn_implementation('sdpa') first, or 'eager'"
        )
    return None


def is_causal_tower(config: Any) -> bool:
    """Whether a model is causal and may still be replaced, with untied queries."""
    return getattr(config, "model_type", None) in _CAUSAL_TOWERS


def choose_layers(
    found: Sequence[AttentionLayer], layers: Layers
) -> list[AttentionLayer]:
    """The layers that ``replace_attention(layers=...)`` names.

    Args:
        found: all layers of the model.
        layers: numbers from 0; ``"all"``; ``"alternate"``, every other one counted
            back from the last; or a function of the number.

    Raises:
        TypeError: for anything else.
        ValueError: if a layer does not exist, or none is named.
    """
    last = len(found) - 1
    if isinstance(layers, str) and layers == "all":
        return list(found)
    if isinstance(layers, str) and layers == "alternate":
        chosen = [layer for layer in found if (last - layer.number) % 2 == 0]
    elif isinstance(layers, str):
        raise ValueError(
            f"layers={layers!r} is not known; use 'all', 'alternate', numbers or a "
            "function of the number"
        )
    elif callable(layers):
        chosen = [layer for layer in found if layers(layer.number)]
    else:
        chosen = [found[number] for number in _numbers(layers, last)]
    if not chosen:
        raise ValueError(
            f"layers={layers!r} names none of the layers 0 to {last}; name one at least"
        )
    shared = getattr(found[0].module.config, "num_hidden_layers", len(found))
    if shared > len(found) and len(chosen) == len(found) == 1:
        raise ValueError(
            f"{found[0]} stands for all {shared} layers of the model, which share "
            "their weights; pass layers='all'"
        )
    return chosen


def _numbers(layers: Any, last: int) -> list[int]:
    try:
        numbers = list(layers)
    except TypeError:
        numbers = [layers]
    try:
        # Those of NumPy and torch, too.
        # A bool, also one of torch's, says yes or no and is no number.
        numbers = [
            True if "bool" in str(getattr(x, "dtype", type(x))) else operator.index(x)
            for x in numbers
        ]
    except TypeError:
        numbers = [True]
    for number in numbers:
        if isinstance(number, bool):
            raise TypeError(
                f"layers must be 'all', 'alternate', numbers or a function of the "
                f"number, got {layers!r}"
            )
        if not 0 <= number <= last:
            raise ValueError(
                f"layer {number} does not exist: the model has the layers 0 to {last}"
            )
    return sorted(set(numbers))


def input_module(model: nn.Module, layers: Sequence[AttentionLayer]) -> nn.Module:
    """The innermost module that holds the layers and takes the model's input.

    Raises:
        NotImplementedError: if there is none.
    """
    wanted = {id(layer.module) for layer in layers}
    found = None
    for module in model.modules():
        held = {id(inner) for inner in module.modules()}
        if wanted <= held and _takes_input(type(module).forward):
            found = module  # outer modules come first
    if found is None:
        raise NotImplementedError(
            f"{type(model).__name__} holds no model of transformers whose forward "
            "takes input_ids or pixel_values; pass that model itself"
        )
    return found


def _takes_input(forward: Callable[..., Any]) -> bool:
    """Whether a forward takes ids or pixels, and keywords to hand on to its layers."""
    known = inspect.signature(forward).parameters
    open_ended = any(x.kind is x.VAR_KEYWORD for x in known.values())
    return open_ended and ("input_ids" in known or "pixel_values" in known)
