import platform
import subprocess
import sys

import pytest
import torch

from hsa_pyg.integrations import memory
from hsa_pyg.integrations.memory import (
    forget_peak,
    peak_memory,
    resident_memory,
    return_free_memory,
)

MEBIBYTE = 2**20


def test_the_peak_remembers_what_was_given_back():
    before = resident_memory()
    held = torch.ones(256 * MEBIBYTE, dtype=torch.uint8)
    assert resident_memory() >= before + 250 * MEBIBYTE
    del held
    assert peak_memory() >= before + 250 * MEBIBYTE


def test_a_child_is_not_charged_for_its_parent():
    held = torch.ones(512 * MEBIBYTE, dtype=torch.uint8)
    code = (
        "import importlib.util as u, sys;"
        "spec = u.spec_from_file_location('memory', sys.argv[1]);"
        "module = u.module_from_spec(spec); spec.loader.exec_module(module);"
        "print(module.peak_memory())"
    )
    path = sys.modules[peak_memory.__module__].__file__
    child = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert int(child.stdout) < held.nbytes / 4


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_what_the_heap_keeps_is_given_back():
    # Small enough for the heap; the last one stands above the gap of the others.
    blocks = [bytes(100_000) for _ in range(3_000)]
    last = bytes(100_000)
    del blocks
    kept = resident_memory()
    assert return_free_memory() is True
    assert resident_memory() < kept - 100 * MEBIBYTE
    assert len(last) == 100_000


def test_where_nothing_can_be_given_back(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert return_free_memory() is False


def test_the_peak_can_be_forgotten():
    held = torch.ones(256 * MEBIBYTE, dtype=torch.uint8)
    assert held.numel() == 256 * MEBIBYTE
    del held
    high = peak_memory()
    if forget_peak():
        assert peak_memory() < high - 200 * MEBIBYTE
    else:
        assert peak_memory() >= high
