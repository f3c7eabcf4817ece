"""Extra peak memory of a call, measured in a process that does nothing else.

Linux keeps the most bytes that a process held (``VmHWM``) and lets a process set it
back to what it holds now. The difference to what it held before the call is what the
call needed on top of its inputs, its results included.

``python -m benchmarks.peak`` reads cases in JSON, one a line, and measures each in a
child of its own. It has imported everything and started no thread by then, so that
children begin alike, and at once.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from benchmarks.cases import Case

#: Allocations from 4 MiB on go back to the system as soon as they are freed; without a
#: fixed bound the allocator raises it to 32 MiB and reuses what it kept, unseen. What
#: is smaller is reused, as otherwise every tile would wait for new pages.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(4 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(32 * 2**20),
}


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
        MemoryError: if the process was killed or could not measure.
    """
    server = _server()
    if server.stdin is None or server.stdout is None:
        raise MemoryError("the process that measures memory has no pipes")
    threads = torch.get_num_threads()
    server.stdin.write(json.dumps([threads, case.to_json()]) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not answer.strip().isdigit():
        raise MemoryError(f"{case} could not be measured: {answer.strip() or 'killed'}")
    return int(answer)


@cache
def _server() -> subprocess.Popen[str]:
    """The process that measures; it ends when this one closes its input."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.peak"],
        cwd=Path(__file__).parents[1],
        env=os.environ | ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def serve() -> None:
    """Measure the cases that come in, and answer each by its bytes on a line."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _answer(line)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            print(f"killed, status {status}", flush=True)


def _answer(line: str) -> None:
    threads, text = json.loads(line)
    try:
        torch.set_num_threads(threads)
        case = Case.from_json(text)
        # Libraries, threads and kernels are loaded by a small call first.
        case.small().call()()
        answer = str(extra_peak(case.call()))
    except Exception as error:  # whatever it is, the other process shall say it
        answer = f"{type(error).__name__}: {error}".replace("\n", " ")
    print(answer, flush=True)


def available() -> int:
    """Bytes that processes may still take on this machine."""
    found = re.search(
        r"^MemAvailable:\s*(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE
    )
    return 0 if found is None else int(found.group(1)) * 1024


def _kibibytes(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{name}:\s*(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise NotImplementedError(f"/proc/self/status does not tell {name}")
    return int(found.group(1))


if __name__ == "__main__":
    serve()
