"""Hierarchical attention within pretrained models of Hugging Face transformers."""
