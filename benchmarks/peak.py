"""Extra peak memory of a call, measured in a process that does nothing else.

Linux keeps the most bytes that a process held (``VmHWM``) and lets a process set it
back to what it holds now. The difference to what it held before the call is what the
call needed on top of its inputs, its results included.

``python -m benchmarks.peak CASE`` prints the bytes of a case in JSON.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.cases import Case

#: Allocations from this size on go back to the system as soon as they are freed. The
#: allocator would otherwise raise the bound to 32 MiB and reuse what it kept, unseen.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def extra_peak(call: Callable[[], object]) -> int:
    """Bytes that ``call`` needs at most, beyond what is resident before it.

    Raises:
        NotImplementedError: where the system is not Linux.
    """
    gc.collect()
    if not Path("/proc/self/clear_refs").exists():
        raise NotImplementedError(
            f"peak memory is measured by /proc, which {sys.platform} does not have; "
            "run the other sections by their names"
        )
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _kibibytes("VmRSS")
    kept = call()
    peak = _kibibytes("VmHWM")
    del kept
    return max(peak - before, 0) * 1024


def extra_peak_of(case: Case) -> int:
    """The same for a case, in a fresh process.

    Raises:
        MemoryError: if the process was killed or could not allocate.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peak", case.to_json()],
        cwd=Path(__file__).parents[1],
        env=os.environ | ENVIRONMENT | {"OMP_NUM_THREADS": str(_threads())},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise MemoryError(f"{case} failed ({done.returncode}): {done.stderr[-500:]}")
    return int(done.stdout.split()[-1])


def available() -> int:
    """Bytes that processes may still take on this machine."""
    found = re.search(
        r"^MemAvailable:\s*(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE
    )
    return 0 if found is None else int(found.group(1)) * 1024


def _threads() -> int:
    return torch.get_num_threads()


def _kibibytes(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{name}:\s*(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise NotImplementedError(f"/proc/self/status does not tell {name}")
    return int(found.group(1))


if __name__ == "__main__":
    measured = Case.from_json(sys.argv[1])
    # Libraries, threads and kernels are loaded by a small call first.
    measured.small().call()()
    print(extra_peak(measured.call()))
