"""Semantic focus: how fast transformers learn that attend to little.

After P. Ram et al., "Transformers Learn Faster with Semantic Focus", NeurIPS 2025
(https://arxiv.org/abs/2506.14095), with hierarchical self-attention beside.
"""
