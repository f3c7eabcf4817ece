"""Compile every kernel for a GPU that need not be there, and say what each takes.

``python -m tests.ops.triton.compile_kernels NAME...`` in a process of its own, without
TRITON_INTERPRET: the host code runs on CPU tensors as it would on a GPU's, and each
launch compiles and does not launch. One line of JSON for each kernel. Without names
all cases are compiled.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from hsa_pyg import SignalHierarchy
from hsa_pyg.ops.passes import AttentionCall
from hsa_pyg.ops.triton import attention
from tests.forests import star

SMALL = torch.cat([star(4), torch.tensor([1, 1, 1, 2, 2, -1])])
LARGE = torch.cat([star(70), torch.tensor([1] * 80)])
#: By name: compute capability, dtype, channels, positions' channels, parents, dropout,
#: whether energies have a gradient.
CASES = {
    "bfloat16 for 9.0": (90, torch.bfloat16, 64, 0, SMALL, 0.0, False),
    "bfloat16 for 8.0": (80, torch.bfloat16, 64, 0, SMALL, 0.0, False),
    "float16, all options": (90, torch.float16, 24, 8, LARGE, 0.1, True),
    "float32": (80, torch.float32, 64, 0, SMALL, 0.0, True),
    "float64": (90, torch.float64, 16, 4, SMALL, 0.0, False),
    "bfloat16, 128 channels": (90, torch.bfloat16, 128, 8, SMALL, 0.0, False),
    "bfloat16, 256 channels": (80, torch.bfloat16, 256, 0, LARGE, 0.0, False),
    "float32, 256 channels": (90, torch.float32, 256, 0, LARGE, 0.0, False),
    "float32, small, all options": (90, torch.float32, 24, 5, LARGE, 0.1, True),
}


class Driver:
    """What Triton asks a GPU's driver for before it compiles."""

    def __init__(self, capability):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return self.target.arch

    def get_current_stream(self, device=None):
        return 0


def resources(kernel):
    """Registers and bytes of spilled ones, by thread."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [str(tool), "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True)
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", text.stdout).groups()
    return {"registers": int(registers), "spilled": int(stack)}


def compile_case(name):
    capability, dtype, channels, positions, parent, dropout, energies = CASES[name]
    triton.runtime.driver.set_active(Driver(capability))
    hierarchy = SignalHierarchy.from_parents(parent)
    x = torch.zeros(hierarchy.num_leaves, 2, channels, dtype=dtype)
    position = torch.zeros(hierarchy.num_nodes, 1, positions) if positions else None
    call = AttentionCall(
        layout=hierarchy.layout,
        leaves=hierarchy.leaves,
        position=position,
        scale=0.125,
        self_attention=True,
        dropout=dropout,
        seed=2**40,
    )
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    y, _, saved = attention.forward(call, x, x, x, compute, True)
    grad_phi = torch.zeros(hierarchy.num_nodes, 2) if energies else None
    attention.backward(call, x, x, x, y, saved, y, grad_phi)


def main(names):
    run = JITFunction.run
    case, seen = "", set()

    def compile_only(kernel, *arguments, grid, warmup, **keywords):
        compiled = run(kernel, *arguments, grid=grid, warmup=True, **keywords)
        if compiled.hash not in seen:
            seen.add(compiled.hash)
            line = {
                "case": case,
                "kernel": kernel.__name__,
                "warps": compiled.metadata.num_warps,
                "shared": compiled.metadata.shared,
                **resources(compiled),
            }
            print(json.dumps(line), flush=True)
        return compiled

    JITFunction.run = compile_only
    for case in names or CASES:
        compile_case(case)


if __name__ == "__main__":
    main(sys.argv[1:])
