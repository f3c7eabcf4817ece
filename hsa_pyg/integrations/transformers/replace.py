"""Replace softmax attention in pretrained models, and put it back."""

from __future__ import annotations

import contextlib
import copy
import inspect
import operator
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from hsa_pyg.integrations.transformers.attention import (
    IMPLEMENTATION,
    LAYER,
    TREES,
    ReplacedLayer,
)
from hsa_pyg.integrations.transformers.forward_trees import Form, ForwardTrees
from hsa_pyg.integrations.transformers.layers import (
    AttentionLayer,
    Layers,
    attention_layers,
    choose_layers,
    input_module,
    is_causal_tower,
    why_not,
)
from hsa_pyg.integrations.transformers.trees import (
    DEFAULT_TREES,
    Builder,
    Span,
    make_builder,
)
from hsa_pyg.ops.backends import check_name

Model = TypeVar("Model", bound=nn.Module)

# Names by which configurations call the tokens that stand around a text.
_SPECIAL = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
# Attribute of the model that holds its Replacement.
_REPLACEMENT = "_hsa_pyg_replacement"


class Replacement:
    """What was done to a model, and the hook that starts every forward pass.

    Args:
        form: how the replaced layers attend.
        layers: the replaced layers.
        config: the configuration that all layers shared.
        implementation: the implementation that it named.
        complete: whether no layer is left that runs another one.
    """

    def __init__(
        self,
        form: Form,
        layers: Sequence[AttentionLayer],
        config: Any,
        complete: bool,
    ) -> None:
        self.form = form
        self.layers = list(layers)
        self.config = config
        self.implementation = config._attn_implementation
        self.complete = complete
        # The model's own configuration while no layer is left that runs another
        # implementation: other models may share the one that it had.
        self.own: Any = None
        self._before = dict(vars(config))
        self.original: tuple[Sequence[str], Sequence[Sequence[Span]]] | None = None
        self.handle: RemovableHandle | None = None

    def share(self, model: nn.Module) -> None:
        """Give the model a configuration of its own that names the implementation."""
        self.own = copy.copy(self.config)
        vars(self.own)["_attn_implementation_internal"] = IMPLEMENTATION
        for module in model.modules():
            if getattr(module, "config", None) is self.config:
                module.config = self.own

    def undo(self, model: nn.Module) -> None:
        """Give the configuration back, with what was changed meanwhile."""
        for layer in self.layers:
            layer.module.config = self.config
        if self.own is None:
            return
        name = "_attn_implementation_internal"
        if getattr(self.own, name) == IMPLEMENTATION:
            vars(self.own)[name] = vars(self.config)[name]
        for key, value in vars(self.own).items():
            if key not in self._before or self._before[key] is not value:
                vars(self.config)[key] = value
        for module in model.modules():
            if getattr(module, "config", None) is self.own:
                module.config = self.config

    def begin(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Hand the trees of this pass to the layers, as a keyword argument."""
        given = inspect.signature(type(model).forward).bind_partial(
            model, *args, **kwargs
        )
        wanted = kwargs.get(
            "output_attentions", given.arguments.get("output_attentions")
        )
        if wanted is None:
            wanted = getattr(model.config, "output_attentions", False)
        if wanted and not self.complete and self.implementation != "eager":
            raise NotImplementedError(
                "output_attentions=True would give the weights of the replaced layers "
                f"alone, since the others run {self.implementation!r}; call "
                "restore_attention(model), model.set_attn_implementation('eager') and "
                "replace_attention again, or replace all layers"
            )
        ids = given.arguments.get("input_ids")
        pixels = given.arguments.get("pixel_values")
        trees = ForwardTrees(self.form, ids, self._grid(pixels), weights=bool(wanted))
        if self.original is not None:
            trees.text, trees.offsets = self.original
        return args, {**kwargs, TREES: trees}

    def _grid(self, pixels: Tensor | None) -> tuple[int, int] | None:
        size = getattr(self.config, "patch_size", None)
        if pixels is None or size is None or pixels.dim() != 4:
            return None
        high, wide = (size, size) if isinstance(size, int) else tuple(size)
        return pixels.size(2) // high, pixels.size(3) // wide


def replace_attention(
    model: Model,
    layers: Layers = "all",
    hierarchy: str | Builder = DEFAULT_TREES,
    *,
    self_attention: bool = True,
    tie_queries: bool = True,
    specials: str = "root",
    special_ids: Sequence[int] | None = None,
    tokenizer: Any = None,
    backend: str = "auto",
) -> Model:
    r"""Let layers of a pretrained model attend hierarchically, without training.

    :math:`\Theta` is the closest to softmax attention among the attention matrices
    that are constant between blocks, so it can stand in for it. No weight changes. The
    model is changed in place: replaced layers run the attention implementation
    ``"hsa_pyg"`` of transformers' attention interface, the others what they ran before.
    Saving the model saves the original architecture.

    For encoders with absolute positions whose attention goes through the interface:
    BERT (MiniLM), RoBERTa, DistilBERT, ELECTRA and their kin, ViT, DeiT, the vision
    tower of CLIP; and CLIP's text tower, which is causal, with ``tie_queries=False``.

    Padded tokens (left or right) are no leaves, and their rows of the attention's
    output are zero. ``output_attentions=True`` gives :math:`\Theta` for batches of up
    to 2,048 tokens. Gradients flow, also through checkpointed layers, and dropout of
    attention weights stays what it was. Under ``torch.compile`` the graph breaks at
    every replaced layer, where its trees are looked up.

    Args:
        model: the model.
        layers: which attention layers: numbers from 0; ``"all"``; ``"alternate"``,
            every other one counted back from the last; or a function from a number to
            whether that layer is replaced.
        hierarchy: the tree over the tokens: a name or a function, as
            :func:`~hsa_pyg.integrations.transformers.trees.make_builder` takes them.
            One forest for all replaced layers is built in every forward pass, or one
            per layer, if the builder asks for the layer's queries and keys. By default
            runs of adjacent tokens whose keys are alike, at a tenth of the FLOPs.
        self_attention: whether a token attends to itself. Softmax models were trained
            so.
        tie_queries: whether tokens below one node share their mean query. ``False``
            comes closer to softmax attention, and takes longer on deep trees.
        specials: ``"root"`` makes special tokens (class token, separators) children of
            the root of their own: many heads rest their attention on them, and a token
            at the root is seen by all alone and sees the coarsest blocks. ``"inside"``
            treats them as any token.
        special_ids: ids of the special tokens. By default those of the tokenizer, if
            one is given; those the configuration names (``bos_token_id``,
            ``eos_token_id``, ``cls_token_id``, ``sep_token_id``); or else the first
            and the last token of each text, as for a model that is called with
            ``inputs_embeds``. In images, what comes before the patches.
        tokenizer: the model's tokenizer, for ``hierarchy="sentences"`` and for the
            special tokens.
        backend: as in :func:`~hsa_pyg.hierarchical_attention`.

    Returns:
        The model.

    Raises:
        TypeError: for a model, layers, a hierarchy or a switch of a wrong kind.
        ValueError: for a name that is not known, a layer that does not exist, or a
            model whose attention is replaced already.
        NotImplementedError: for a layer that cannot be replaced; it names it and why.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> bert = BertModel(BertConfig(num_hidden_layers=4, vocab_size=99)).eval()
        >>> bert = replace_attention(bert, layers=[1, 3], hierarchy="window:4")
        >>> replaced_layers(bert)
        [1, 3]
        >>> replaced_layers(restore_attention(bert))
        []
    """
    if specials not in ("root", "inside"):
        raise ValueError(f"specials={specials!r} is not known; use 'root' or 'inside'")
    for name, switch in (
        ("self_attention", self_attention),
        ("tie_queries", tie_queries),
    ):
        if not isinstance(switch, bool):
            raise TypeError(f"{name} must be True or False, got {switch!r}")
    check_name(backend)
    found = attention_layers(model)
    if _replacements(model):
        raise ValueError(
            f"the attention of {type(model).__name__} is replaced already, in the "
            f"layers {replaced_layers(model)}; call restore_attention(model) first"
        )
    chosen = choose_layers(found, layers)
    for layer in chosen:
        reason = why_not(layer, tie_queries)
        if reason is not None:
            raise NotImplementedError(f"{layer} {reason}")
    config = chosen[0].module.config
    if not tie_queries and backend not in ("auto", "torch", "reference"):
        raise NotImplementedError(
            f"backend {backend!r} has no tie_queries=False; choose 'auto' or 'torch'"
        )
    form = Form(
        make_builder(hierarchy, tokenizer),
        self_attention,
        tie_queries,
        is_causal_tower(config),
        specials,
        _special_ids(special_ids, tokenizer, config),
        backend,
    )
    base = input_module(getattr(model, "_orig_mod", model), chosen)
    replacement = Replacement(form, chosen, config, len(chosen) == len(found))
    for layer in chosen:
        own = copy.copy(config)
        vars(own)["_attn_implementation_internal"] = IMPLEMENTATION
        vars(own)[LAYER] = ReplacedLayer(layer.number, form, config)
        layer.module.config = own
    if replacement.complete and not getattr(config, "is_encoder_decoder", False):
        # No layer is left that needs a mask of L x L: the mask interface asks ours.
        # (An encoder may share its configuration with a decoder.)
        replacement.share(model)
    replacement.handle = base.register_forward_pre_hook(
        replacement.begin, with_kwargs=True
    )
    vars(base)[_REPLACEMENT] = replacement
    return model


def restore_attention(model: Model) -> Model:
    """Undo :func:`replace_attention`: outputs are again what they were, bit by bit.

    A model whose attention is not replaced stays as it is.

    Args:
        model: the model, or one that holds it.

    Returns:
        The model.

    Raises:
        ValueError: for a part of a model whose attention is replaced.
    """
    found = _replacements(model)
    if not found and any(map(_runs_ours, model.modules())):
        raise ValueError(
            f"{type(model).__name__} is a part of the model whose attention is "
            "replaced; call restore_attention on that model"
        )
    for base, replacement in found:
        replacement.undo(model)
        if replacement.handle is not None:
            replacement.handle.remove()
        del vars(base)[_REPLACEMENT]
    return model


def replaced_layers(model: nn.Module) -> list[int]:
    """Numbers of the layers whose attention is replaced, ascending."""
    return [
        layer.number
        for _, replacement in _replacements(model)
        for layer in replacement.layers
    ]


@contextlib.contextmanager
def original_text(
    model: nn.Module, texts: Sequence[str], offsets: Sequence[Sequence[Span]] | Tensor
) -> Iterator[None]:
    """Within this context, tree builders see the texts that the ids stand for.

    ``hierarchy="sentences"`` then finds sentences and paragraphs in the text itself
    rather than in what the ids decode to.

    Args:
        model: a model whose attention is replaced.
        texts: of the batch that the model is called with.
        offsets: (start, stop) characters of each token, [B, L, 2]: the tokenizer's
            ``offset_mapping``.

    Raises:
        TypeError: for a single text, or no offsets.
        ValueError: if the attention is not replaced, or sizes differ.
    """
    found = _replacements(model)
    if not found:
        raise ValueError(
            f"the attention of {type(model).__name__} is not replaced; call "
            "replace_attention(model) first"
        )
    if isinstance(texts, str) or offsets is None:
        raise TypeError(
            "original_text takes a list of texts and the offset_mapping of all of "
            "them: call the tokenizer with return_offsets_mapping=True"
        )
    spans = offsets.tolist() if isinstance(offsets, Tensor) else list(offsets)
    if len(texts) != len(spans):
        raise ValueError(
            f"texts are {len(texts)} but offsets are for {len(spans)}; give the "
            "offset_mapping of the same call of the tokenizer"
        )
    before = [replacement.original for _, replacement in found]
    for _, replacement in found:
        replacement.original = (list(texts), spans)
    try:
        yield
    finally:
        for (_, replacement), original in zip(found, before, strict=True):
            replacement.original = original


def _runs_ours(module: nn.Module) -> bool:
    return getattr(getattr(module, "config", None), LAYER, None) is not None


def _replacements(model: nn.Module) -> list[tuple[nn.Module, Replacement]]:
    return [
        (module, vars(module)[_REPLACEMENT])
        for module in model.modules()
        if _REPLACEMENT in vars(module)
    ]


def _special_ids(
    given: Sequence[int] | None, tokenizer: Any, config: Any
) -> tuple[int, ...] | None:
    if given is not None:
        try:
            return tuple(operator.index(number) for number in given)
        except TypeError as error:
            raise TypeError(
                f"special_ids must be a list of token ids, got {given!r}"
            ) from error
    if tokenizer is not None:
        if not hasattr(tokenizer, "all_special_ids"):
            raise TypeError(
                "tokenizer must be the model's tokenizer, as "
                f"AutoTokenizer.from_pretrained gives it, got {tokenizer!r}"
            )
        # These stand for a word, or for nothing.
        inner = {
            getattr(tokenizer, f"{name}_token_id", None)
            for name in ("mask", "unk", "pad")
        }
        return tuple(x for x in tokenizer.all_special_ids if x not in inner)
    named: list[int] = []
    for name in _SPECIAL:
        value = getattr(config, name, None)
        if value is not None:
            named += [value] if isinstance(value, int) else list(value)
    # Some configurations give the id of padding for what they do not have.
    padding = getattr(config, "pad_token_id", None)
    return tuple(x for x in named if x != padding) or None
