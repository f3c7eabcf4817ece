"""Tiny models of every supported architecture, with random weights."""

import pytest
import torch
import transformers

from hsa_pyg.integrations.transformers import Tokens

_TEXT = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "vocab_size": 99,
}
_IMAGE = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "image_size": 32,
    "patch_size": 8,
}
# "stem" makes both the configuration's name and, with "Model", the model's.
TEXT = {
    "Bert": {},
    "Roberta": {},
    "XLMRoberta": {},
    "Electra": {"embedding_size": 16},
    "DistilBert": {"dim": 32, "n_heads": 4, "hidden_dim": 64, "n_layers": 4},
    "Albert": {"embedding_size": 16},
}
IMAGE = ("ViT", "DeiT", "CLIPVision", "Dinov2")
CAUSAL = {"CLIPText": {"bos_token_id": 97, "eos_token_id": 98}}


def build(stem, **options):
    """A model in evaluation mode; the same weights at every call."""
    torch.manual_seed(7)
    base = _IMAGE if stem in IMAGE else _TEXT
    own = {**TEXT, **CAUSAL}.get(stem, {})
    if stem == "DistilBert":
        base = {"vocab_size": 99}
    config = getattr(transformers, f"{stem}Config")(**{**base, **own, **options})
    model = getattr(transformers, f"{stem}Model")(config).eval()
    # Fresh weights are small and hardly attend: make heads tell tokens apart. (CLIP's
    # are larger; scores in the hundreds would round off more than 1e-5.)
    factor = 3 if stem.startswith("CLIP") else 12
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if any(part in name for part in ("query", "key", "q_", "k_")):
                weight.mul_(factor)
    return model


@pytest.fixture
def tiny():
    return build


@pytest.fixture
def texts():
    """Ids and masks of a batch: whole, padded on the right, padded on the left."""
    ids = torch.randint(5, 97, (3, 21), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    mask[2, :5] = 0
    return {"input_ids": ids, "attention_mask": mask}


def scored_tokens(*texts, seed=0, heads=2, dtype=torch.double):
    """Tokens with queries and keys: ``c`` special, ``t`` of the text, ``.`` padding."""
    kept = torch.tensor([[x != "." for x in text] for text in texts])
    special = torch.tensor([[x == "c" for x in text] for text in texts])
    rows = int(kept.sum())
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, rows, heads, 8, generator=generator, dtype=dtype)
    # Neighbours are alike, as in texts.
    drift = torch.randn(rows, 1, 8, generator=generator, dtype=dtype).cumsum(0)
    return Tokens(kept, special, q=q, k=k + drift / 2)


@pytest.fixture
def scored():
    return scored_tokens
