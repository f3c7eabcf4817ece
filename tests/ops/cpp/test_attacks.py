"""What the C++ backend must survive: not-a-numbers, odd homes, compilers with options.

And what stays: no bit depends on threads, and calls do not disturb each other.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from hsa_pyg import SignalHierarchy, hierarchical_attention
from hsa_pyg.ops.cpp import build
from tests.differentiation import results, tensors_for
from tests.forests import caterpillar, inputs, random_parents, side_by_side, star

INFINITY = float("inf")
PARENTS = {
    "a leaf-only family": star(6),
    "one larger than a block": star(70),
    "a mixed family": torch.cat([star(4), torch.tensor([1] * 3)]),
}


@pytest.mark.parametrize("top_k", [None, 3])
@pytest.mark.parametrize("value", [float("nan"), INFINITY, -INFINITY])
@pytest.mark.parametrize("which", ["q", "k", "v"])
@pytest.mark.parametrize("name", PARENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_no_number_never_becomes_one(name, which, value, top_k, dtype):
    """A model that diverged must be seen to: as the torch backend in float64."""
    hierarchy = SignalHierarchy.from_parents(PARENTS[name])
    tensors = dict(zip("qkv", inputs(hierarchy, 1, 4, 3), strict=True))
    tensors[which][1, 0, 0] = value
    short = [x.to(dtype) for x in tensors.values()]
    wide = [x.double() for x in short]
    options = {"return_energy": True, "top_k": top_k}
    y, phi = hierarchical_attention(*short, hierarchy, backend="cpp", **options)
    expected, energy = hierarchical_attention(
        *wide, hierarchy, backend="torch", **options
    )
    if top_k is not None:
        # Which scores a NaN loses to is nobody's business; but a leaf keeps itself.
        y, expected = y[1], expected[1]
        phi = energy = torch.zeros(1)
    for a, b in ((y, expected), (phi, energy)):
        assert torch.equal(a.isfinite(), b.isfinite())


def test_a_compiler_may_come_with_options(monkeypatch):
    """As builds set it: CXX="ccache g++", CXX="g++ -m64"."""
    monkeypatch.setenv("CXX", "g++ -O2")
    command, option = build.compiler()
    assert Path(command).name == "g++"
    assert option == "-O2"


def test_no_home_is_a_reason_and_no_crash(monkeypatch):
    """A container under a user id that has no name: the slower backend takes over."""

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HSA_PYG_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(build.Path, "home", no_home)
    assert build.cache_folder().is_dir()


def test_nothing_to_write_on_is_a_reason_and_no_crash(tmp_path, monkeypatch):
    def no_folder():
        raise FileNotFoundError("No usable temporary directory found")

    (tmp_path / "file").write_text("")
    monkeypatch.delenv("HSA_PYG_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    with pytest.raises(build.BuildError, match="HSA_PYG_CACHE"):
        build.cache_folder()


def test_others_may_read_a_library_in_a_shared_cache(tmp_path, monkeypatch):
    """As with any file that a compiler writes: what the umask says."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "answer.cpp").write_text('extern "C" int answer() { return 42; }\n')
    monkeypatch.setattr(build, "SOURCES", folder)
    monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path / "cache"))
    build.build()
    (library,) = (tmp_path / "cache").glob("*.so")
    plain = tmp_path / "plain"
    plain.write_text("")
    assert library.stat().st_mode & 0o044 == plain.stat().st_mode & 0o044


def test_calls_of_many_threads_do_not_disturb_each_other():
    parents = [
        side_by_side(random_parents(120, 1, reach=20), star(70), caterpillar(9))[0],
        star(130),
        torch.cat([star(65), torch.tensor([1] * 7)]),
    ]
    cases = []
    for seed, parent in enumerate(parents):
        hierarchy = SignalHierarchy.from_parents(parent)
        tensors = tensors_for(hierarchy, 2, 5 + 12 * seed, 3 + seed, "shared", seed)
        options = ({}, {"top_k": 3}, {"self_attention": False})[seed]
        cases.append((hierarchy, tensors, options))

    def run(i):
        hierarchy, tensors, options = cases[i % len(cases)]
        return results(hierarchy, tensors, backend="cpp", **options)

    alone = [run(i) for i in range(len(cases))]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(run, range(24)))
    for i, found in enumerate(together):
        for a, b in zip(found, alone[i % len(cases)], strict=True):
            assert torch.equal(a, b)


def test_bits_behind_a_pending_negation_are_seen():
    """The imaginary part of a conjugate is a view whose sign is still to be turned."""
    hierarchy = SignalHierarchy.from_parents(star(5))
    z = torch.randn(5, 2, 4, dtype=torch.complex128)
    x = z.conj().imag
    assert x.is_neg()
    actual = hierarchical_attention(x, x, x, hierarchy, backend="cpp")
    x = x.resolve_neg()
    assert torch.equal(
        actual, hierarchical_attention(x, x, x, hierarchy, backend="cpp")
    )
