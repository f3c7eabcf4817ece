"""The C++ sources are compiled once, kept, and a failure says what to do."""

import ctypes

import pytest

from hsa_pyg.ops.cpp import build

SOURCE = 'extern "C" int answer() { return %d; }\n'


@pytest.fixture
def sources(tmp_path, monkeypatch):
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "answer.cpp").write_text(SOURCE % 42)
    monkeypatch.setattr(build, "SOURCES", folder)
    monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def compilations(monkeypatch):
    made = []
    real = build.compile_library

    def counted(target, command):
        made.append(target)
        real(target, command)

    monkeypatch.setattr(build, "compile_library", counted)
    return made


def test_the_kernels_can_be_compiled_here():
    assert build.why_not() is None
    assert isinstance(build.library(), ctypes.CDLL)


def test_sources_are_compiled_once(sources, compilations):
    assert build.build().answer() == 42
    assert build.build().answer() == 42
    assert len(compilations) == 1


def test_changed_sources_or_flags_are_compiled_again(
    sources, compilations, monkeypatch
):
    build.build()
    (sources / "answer.cpp").write_text(SOURCE % 43)
    assert build.build().answer() == 43
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DOTHER"))
    build.build()
    assert len(set(compilations)) == 3


def test_another_processor_gets_another_library(sources, compilations, monkeypatch):
    build.build()
    monkeypatch.setattr(build, "_processor", lambda: "another one")
    build.build()
    assert len(set(compilations)) == 2


def test_a_damaged_library_is_compiled_again(sources, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(build, "compile_library", lambda to, _: to.write_bytes(b"damage"))
        with pytest.raises(build.BuildError, match="does not load"):
            build.build()
    assert build.build().answer() == 42
    assert "damaged" in caplog.text


def test_no_half_written_library_is_left(sources):
    (sources / "answer.cpp").write_text("this is no C++\n")
    with pytest.raises(build.BuildError, match="failed:\n"):
        build.build()
    assert list(build.cache_folder().iterdir()) == []


def test_a_missing_compiler_is_named_with_the_remedy(sources, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match=r"CXX=no-such-compiler.*install one"):
        build.build()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(build.BuildError, match=r"g\+\+, c\+\+, clang\+\+"):
        build.build()


def test_a_compiler_that_does_not_run_is_named(sources, tmp_path, monkeypatch):
    broken = tmp_path / "c++"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(build.BuildError, match="did not run"):
        build.build()


def test_why_not_says_why_and_library_raises_it(monkeypatch):
    def fail():
        raise build.BuildError("no compiler today")

    monkeypatch.setattr(build, "build", fail)
    build._built.cache_clear()
    try:
        assert build.why_not() == "no compiler today"
        with pytest.raises(build.BuildError, match="no compiler today"):
            build.library()
    finally:
        build._built.cache_clear()


def test_windows_is_refused(monkeypatch):
    monkeypatch.setattr(build.sys, "platform", "win32")
    with pytest.raises(build.BuildError, match="Linux and macOS"):
        build.build()


class TestCacheFolder:
    def test_below_the_users_cache(self, tmp_path, monkeypatch):
        monkeypatch.delenv("HSA_PYG_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert build.cache_folder() == tmp_path / "hsa_pyg"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert build.cache_folder() == tmp_path / "home" / ".cache" / "hsa_pyg"

    def test_a_given_folder_that_cannot_be_written_is_an_error(
        self, tmp_path, monkeypatch
    ):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("HSA_PYG_CACHE", str(tmp_path / "file"))
        with pytest.raises(build.BuildError, match=r"HSA_PYG_CACHE=.* cannot be"):
            build.cache_folder()

    def test_a_private_folder_where_the_cache_cannot_be_written(
        self, tmp_path, monkeypatch
    ):
        (tmp_path / "file").write_text("")
        monkeypatch.delenv("HSA_PYG_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.setattr(build.tempfile, "gettempdir", lambda: str(tmp_path))
        folder = build.cache_folder()
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o077 == 0
        folder.chmod(0o777)
        with pytest.raises(build.BuildError, match="written by others"):
            build.cache_folder()


def test_a_library_in_the_cache_needs_no_compiler(sources, monkeypatch):
    build.build()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.build().answer() == 42


def test_a_library_in_the_cache_needs_no_room_to_write(sources, monkeypatch):
    build.build()

    def refuse(**_):
        raise OSError("read-only file system")

    monkeypatch.setattr(build.tempfile, "TemporaryFile", refuse)
    assert build.build().answer() == 42
