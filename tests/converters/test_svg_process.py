import subprocess
import sys
from pathlib import Path

import pytest

from hsa_pyg.converters import svg_process

resvg_py = pytest.importorskip("resvg_py", reason="resvg-py is not installed")
SITE = str(Path(resvg_py.__file__).parents[1])
MARKUP = b'<svg xmlns="http://www.w3.org/2000/svg" width="30" height="40"></svg>'


def run(content, *size, memory=2**30, seconds=10):
    return subprocess.run(
        [
            *(sys.executable, "-I", "-S", svg_process.__file__),
            *(SITE, str(memory), str(seconds), "", *size),
        ],
        input=content,
        capture_output=True,
        check=False,
    )


def test_it_gives_png():
    done = run(MARKUP)
    assert done.returncode == 0
    assert done.stdout[:8] == b"\x89PNG\r\n\x1a\n"
    assert done.stdout[16:24] == bytes([0, 0, 0, 30, 0, 0, 0, 40])
    assert run(MARKUP, "3", "4").stdout[16:24] == bytes([0, 0, 0, 3, 0, 0, 0, 4])


def test_what_the_renderer_refuses():
    done = run(b"<svg")
    assert done.returncode == 3
    assert b"XML" in done.stderr or b"root" in done.stderr
    assert done.stdout == b""


@pytest.mark.skipif(sys.platform != "linux", reason="limits differ between systems")
def test_it_dies_of_its_limits():
    assert run(MARKUP, "30000", "30000", memory=2**28).returncode < 0
