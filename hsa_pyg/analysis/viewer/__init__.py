"""A page on which a signal is read, and the attention of a model looked at."""

from hsa_pyg.analysis.viewer.page import render_viewer, write_viewer

__all__ = ["render_viewer", "write_viewer"]
