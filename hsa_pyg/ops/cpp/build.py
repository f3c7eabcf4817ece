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
import shlex
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


def compiler() -> list[str]:
    """The C++ compiler, with options if CXX has some; CXX or else the usual names.

    Raises:
        BuildError: if there is none.
    """
    wanted = os.environ.get("CXX")
    commands = [shlex.split(wanted)] if wanted else [["g++"], ["c++"], ["clang++"]]
    for command in commands:
        found = shutil.which(command[0]) if command else None
        if found is not None:
            return [found, *command[1:]]
    looked = f"CXX={wanted}" if wanted else "g++, c++, clang++"
    raise BuildError(
        f"no C++ compiler was found ({looked}); install one (apt-get install g++, "
        "conda install gxx) or set CXX"
    )


def _usual_folder() -> Path | None:
    """Below HSA_PYG_CACHE or the user's cache; None for a user without a home."""
    if given := os.environ.get("HSA_PYG_CACHE"):
        return Path(given)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "hsa_pyg"
    try:
        return Path.home() / ".cache" / "hsa_pyg"
    except RuntimeError:
        return None


def _own_temporary_folder() -> Path:
    """A folder among the temporary files that nobody else may write to."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    try:
        folder = Path(tempfile.gettempdir()) / f"hsa_pyg-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.stat()
    except OSError as error:
        raise BuildError(
            f"there is no folder to keep compiled kernels in ({error}); set "
            "HSA_PYG_CACHE to one that can be written"
        ) from error
    if hasattr(os, "getuid") and (state.st_uid != os.getuid() or state.st_mode & 0o022):
        raise BuildError(
            f"{folder} can be written by others; set HSA_PYG_CACHE to a folder of yours"
        )
    return folder


def cache_folder() -> Path:
    """Where compiled libraries are kept: below HSA_PYG_CACHE or the user's cache.

    Where that cannot be written, a folder of the user's own among the temporary files.

    Raises:
        BuildError: if HSA_PYG_CACHE cannot be written, or no folder can.
    """
    folder = _usual_folder()
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError as error:
        if os.environ.get("HSA_PYG_CACHE"):
            raise BuildError(
                f"HSA_PYG_CACHE={folder} cannot be written: {error}"
            ) from error
    return _own_temporary_folder()


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


def _name() -> str:
    """File name of the library for these sources and this processor."""
    digest = hashlib.sha256()
    for part in (*FLAGS, _processor(), sys.platform, platform.machine()):
        digest.update(part.encode() + b"\0")
    for path in sorted(x for x in SOURCES.iterdir() if x.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"attention-{digest.hexdigest()[:24]}.so"


def compile_library(target: Path, command: list[str]) -> None:
    """Compile all sources into ``target``, which appears whole or not at all.

    Args:
        target: the library.
        command: the compiler and its options.

    Raises:
        BuildError: with the compiler's words, if it fails.
    """
    sources = [str(path) for path in sorted(SOURCES.glob("*.cpp"))]
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            # Not a temporary file of ours: so its permissions are what umask says.
            made = Path(folder) / target.name
            _run([*command, *FLAGS, *sources, "-o", str(made)])
            os.replace(made, target)
    except OSError as error:
        raise BuildError(f"{target} cannot be written: {error}") from error


def _load(path: Path) -> ctypes.CDLL | None:
    """A library that is there; None if it is not, or damaged."""
    if not path.is_file():
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        logger.warning("%s is damaged (%s) and compiled again", path, error)
        return None


def build() -> ctypes.CDLL:
    """Load the library from the cache, after compiling it if it is not there.

    A library that is there needs neither a compiler nor a cache that can be written.

    Raises:
        BuildError: if it can be neither compiled nor loaded.
    """
    if sys.platform == "win32":
        raise BuildError("the C++ backend is written for Linux and macOS")
    name, usual = _name(), _usual_folder()
    library = None if usual is None else _load(usual / name)
    if library is not None:
        return library
    command = compiler()
    target = cache_folder() / name
    if target.parent != usual and (library := _load(target)) is not None:
        return library
    logger.warning("hsa_pyg compiles its CPU kernels, once on this machine")
    compile_library(target, command)
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
