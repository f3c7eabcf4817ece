"""Compiles the C++ sources once a machine, with the user's own compiler.

The library knows neither Python nor torch: a change of their versions leaves it as it
is. It is compiled for the very processor, so the cache tells processors apart.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

logger = logging.getLogger(__name__)

SOURCES = Path(__file__).parent / "src"

#: Floating point may be reordered, but infinities and NaN keep their meaning: an energy
#: may be infinite.
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
)


class BuildError(RuntimeError):
    """The C++ backend cannot be had; the text says why and what to do."""


def compiler() -> str:
    """Path of the C++ compiler: the environment variable CXX, or the usual names.

    Raises:
        BuildError: if there is none.
    """
    wanted = os.environ.get("CXX")
    names = [wanted] if wanted else ["g++", "c++", "clang++"]
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    looked = f"CXX={wanted}" if wanted else ", ".join(names)
    raise BuildError(
        f"no C++ compiler was found ({looked}); install one (apt-get install g++, "
        "conda install gxx) or set CXX"
    )


def cache_folder() -> Path:
    """Where compiled libraries are kept: below HSA_PYG_CACHE or the user's cache.

    Where that cannot be written, a folder of the user's own among the temporary files.
    """
    given = os.environ.get("HSA_PYG_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    usual = Path(base) if base else Path.home() / ".cache"
    folder = Path(given) if given else usual / "hsa_pyg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        if given:
            raise BuildError(
                f"HSA_PYG_CACHE={given} cannot be written: {error}"
            ) from error
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    folder = Path(tempfile.gettempdir()) / f"hsa_pyg-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.stat()
    if hasattr(os, "getuid") and (state.st_uid != os.getuid() or state.st_mode & 0o022):
        raise BuildError(
            f"{folder} can be written by others; set HSA_PYG_CACHE to a folder of yours"
        )
    return folder


def _processor() -> str:
    """What ``-march=native`` looks at."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(x for x in lines if x.startswith(wanted)))


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=600
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} did not run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise BuildError(f"`{' '.join(command)}` failed:\n{said}")
    return done.stdout


def _key(binary: str) -> str:
    digest = hashlib.sha256()
    version = _run([binary, "--version"])
    for part in (version, *FLAGS, _processor(), sys.platform, platform.machine()):
        digest.update(part.encode() + b"\0")
    for path in sorted(x for x in SOURCES.iterdir() if x.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def compile_library(target: Path, binary: str) -> None:
    """Compile all sources into ``target``, which appears whole or not at all.

    Raises:
        BuildError: with the compiler's words, if it fails.
    """
    sources = [str(path) for path in sorted(SOURCES.glob("*.cpp"))]
    handle, name = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    try:
        _run([binary, *FLAGS, *sources, "-o", name])
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def build() -> ctypes.CDLL:
    """Load the library from the cache, after compiling it if it is not there.

    Raises:
        BuildError: if it can be neither compiled nor loaded.
    """
    if sys.platform == "win32":
        raise BuildError("the C++ backend is written for Linux and macOS")
    binary = compiler()
    target = cache_folder() / f"attention-{_key(binary)}.so"
    if target.exists():
        try:
            return ctypes.CDLL(str(target))
        except OSError as error:
            logger.warning("%s is damaged (%s) and compiled again", target, error)
    else:
        logger.warning("hsa_pyg compiles its CPU kernels, once on this machine")
    compile_library(target, binary)
    try:
        return ctypes.CDLL(str(target))
    except OSError as error:
        raise BuildError(
            f"{target} was compiled, but does not load: {error}"
        ) from error


@functools.cache
def _built() -> ctypes.CDLL | str:
    try:
        return build()
    except BuildError as error:
        return str(error)


def why_not() -> str | None:
    """Why there is no library; None if there is one. Compiles it on the first call."""
    found = _built()
    return found if isinstance(found, str) else None


def library() -> ctypes.CDLL:
    """The loaded library.

    Raises:
        BuildError: if it can be neither compiled nor loaded.
    """
    found = _built()
    if isinstance(found, str):
        raise BuildError(found)
    return found
