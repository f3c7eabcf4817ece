"""Kernels on a GPU if there is one, else in Triton's interpreter.

Triton asks for TRITON_INTERPRET when a kernel is defined. It is set only while the
kernels are imported here: they call none of Triton's own library of kernels, which may
have been defined before, so that nothing else in the process is interpreted.
"""

import importlib
import os
import sys

import pytest
import torch

PACKAGE = "hsa_pyg.ops.triton"


def import_interpreted():
    """Import the kernels, once more if that was done without the interpreter."""
    for name in [x for x in sys.modules if x.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        importlib.import_module(f"{PACKAGE}.attention")
    finally:
        del os.environ["TRITON_INTERPRET"]
        if before is not None:
            os.environ["TRITON_INTERPRET"] = before


if not torch.cuda.is_available():
    import_interpreted()


@pytest.fixture
def device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
