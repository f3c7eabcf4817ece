import subprocess
import sys

import torch

from hsa_pyg.integrations.memory import peak_memory, resident_memory

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
