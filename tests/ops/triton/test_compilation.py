"""Every kernel compiles for GPUs: an interpreter takes much that a compiler refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = {
    "leaf_only_forward",
    "means_upward",
    "mixed_forward",
    "energy_upward",
    "contexts_downward",
    "leaves_forward",
    "leaf_only_collect",
    "collect_upward",
    "energy_downward",
    "means_downward",
    "leaves_backward",
}
ONE_PASS = {"families_backward"}
LOOPS = {"queries_backward", "keys_backward"}
#: What a program may have of a multiprocessor's memory, in bytes, by capability.
SHARED = 163 * 1024


CASES = {
    "bfloat16 for 9.0": ONE_PASS,
    "bfloat16 for 8.0": ONE_PASS,
    "float16, all options": LOOPS | {"large_leaf_only_means"},
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """What each kernel takes, by case; in a process without the interpreter."""
    cache = tmp_path_factory.mktemp("compiled")
    environment = dict(os.environ, TRITON_CACHE_DIR=str(cache))
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-m", "tests.ops.triton.compile_kernels", *CASES]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=root, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: [line for line in lines if line["case"] == name] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_every_kernel_compiles(name, compiled):
    assert {line["kernel"] for line in compiled[name]} == KERNELS | CASES[name]
    assert all(line["shared"] <= SHARED for line in compiled[name])


def test_nothing_spills_where_speed_is_promised(compiled):
    """Half precision, heads of 64, on the GPU that the benchmarks are for."""
    kernels = compiled["bfloat16 for 9.0"]
    assert [line for line in kernels if line["spilled"] > 0] == []
    assert max(line["registers"] for line in kernels if line["warps"] == 4) <= 168
