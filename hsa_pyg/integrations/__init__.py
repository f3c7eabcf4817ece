"""Other libraries around the layers of this one, each an optional extra.

Nothing is imported here, so that ``import hsa_pyg.integrations`` never asks for an
extra: ``from hsa_pyg.integrations.lightning import SignalClassifier`` does.
"""
