"""The C library: how it is built, found, loaded, and done without."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from forerun import clib
from forerun.models.native import build

ROOT = Path(__file__).parents[1]

compiled = pytest.mark.skipif(
    clib.library() is None, reason="no C compiler was there when forerun was installed"
)


def script(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@compiled
def test_the_library_is_built_from_these_sources():
    kind = build.machine(build.compiler())
    told = clib.library().fr_build().decode()
    assert told.split()[0] == build.fingerprint(kind), "stale: run `make library`"
    assert clib.why_missing() is None


@compiled
def test_it_is_looked_for_where_it_is_built():
    assert clib.PLACE == build.PLACE
    assert clib.PLACE.exists()


@compiled
def test_threads_load_it_once():
    clib._load_once.cache_clear()
    found, start = [], threading.Barrier(8)

    def ask():
        start.wait()
        found.append(clib.library())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(library) for library in found}) == 1


def test_importing_forerun_loads_nothing():
    code = "import forerun, forerun.clib as c; assert c._load_once.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_missing_library_is_said_with_the_remedy(tmp_path):
    found, why = clib.load(tmp_path / "libforerun.so")
    assert found is None
    assert "not built" in why
    assert "C compiler" in why
    assert "python -m forerun.models.native.build" in why


def test_a_file_that_is_no_library_is_said(tmp_path):
    (tmp_path / "libforerun.so").write_text("nothing")
    found, why = clib.load(tmp_path / "libforerun.so")
    assert found is None
    assert "cannot be loaded" in why


@compiled
def test_another_interface_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(clib, "ABI", 99)
    found, why = clib.load(clib.PLACE)
    assert found is None
    assert f"interface {clib.library().fr_abi()}, this forerun needs 99" in why


def test_paths_get_their_flags_on_their_machine_alone(tmp_path):
    for name in ("pool.c", "path_avx512.c", "path_avx2.c", "path_neon.c", "note.h"):
        (tmp_path / name).write_text("")
    x86 = {file.name: flags for file, flags in build.units("x86_64", tmp_path)}
    assert sorted(x86) == ["path_avx2.c", "path_avx512.c", "pool.c"]
    assert x86["pool.c"] == list(build.FLAGS)
    assert "-mavx512vnni" in x86["path_avx512.c"]
    assert "-mavx512vnni" not in x86["path_avx2.c"]
    assert sorted(f.name for f, _ in build.units("aarch64", tmp_path)) == ["path_neon.c", "pool.c"]
    assert [f.name for f, _ in build.units("riscv64", tmp_path)] == ["pool.c"]
    everything = [flag for _, flags in build.units("x86_64", tmp_path) for flag in flags]
    assert "-march=native" not in everything
    assert "-ffp-contract=off" in everything


def test_the_fingerprint_follows_sources_and_headers(tmp_path):
    (tmp_path / "a.c").write_text("int a;")
    (tmp_path / "a.h").write_text("")
    first = build.fingerprint("x86_64", tmp_path)
    assert build.fingerprint("x86_64", tmp_path) == first
    (tmp_path / "a.h").write_text("int a;")
    second = build.fingerprint("x86_64", tmp_path)
    (tmp_path / "a.c").write_text("int b;")
    third = build.fingerprint("x86_64", tmp_path)
    assert len({first, second, third}) == 3


@compiled
def test_a_build_replaces_the_library_in_one_step(tmp_path):
    sources, place = tmp_path / "sources", tmp_path / "place"
    sources.mkdir()
    place.mkdir()
    for name in ("abi.c", "export.h"):
        shutil.copy(build.SOURCES / name, sources)
    out = place / "libforerun.so"
    out.write_text("old")
    with out.open() as reading:
        build.build(out, sources=sources)
        assert reading.read() == "old"  # another file now: one that is in use is not overwritten
    assert ctypes.CDLL(str(out)).fr_abi() == clib.ABI
    assert [file.name for file in place.iterdir()] == ["libforerun.so"]


@pytest.mark.long
@compiled
def test_sources_compile_without_warnings(tmp_path, capfd):
    build.build(tmp_path / "libforerun.so")
    assert capfd.readouterr().err == ""


def test_no_compiler_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(build.BuildError, match="no C compiler found"):
        build.build(tmp_path / "out.so")
    monkeypatch.setenv("CC", "nonesuch -m64")
    with pytest.raises(build.BuildError, match="'nonesuch -m64' not found"):
        build.build(tmp_path / "out.so")


def test_a_failing_compiler_is_one_line_and_leaves_the_old_library(tmp_path):
    cc = script(tmp_path / "cc", '[ "$1" = -dumpmachine ] && echo x86_64-linux || exit 1\n')
    out = tmp_path / "out.so"
    out.write_text("old")
    done = subprocess.run(
        [sys.executable, build.__file__, str(out), "--cc", cc], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "was not built" in done.stderr
    assert out.read_text() == "old"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_an_error_in_the_sources_names_its_line(tmp_path):
    (tmp_path / "bad.c").write_text("int f(void) { return x; }\n")
    with pytest.raises(build.BuildError, match=r"bad\.c:1:\d+: error"):
        build.build(tmp_path / "out.so", sources=tmp_path)


def wheel(folder: Path, source: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--quiet", "--wheel-dir", str(folder), str(source)],
        env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.long
@compiled
def test_wheels(tmp_path):
    """One wheel for the platform, from the tree and from the source package; else a pure one."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (packed,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(packed, tmp_path / "sdist", filter="data")
    (unpacked,) = (tmp_path / "sdist").iterdir()
    assert not list(unpacked.rglob("libforerun.*"))

    kind = build.machine(build.compiler())
    for name, source in (("tree", ROOT), ("unpacked", unpacked)):
        built = wheel(tmp_path / name, source)
        assert built.name.partition("-py3-")[2].startswith(("none-linux_", "none-macosx_"))
        with zipfile.ZipFile(built) as archive:
            names = archive.namelist()
            assert names.count(f"forerun/{build.LIBRARY}") == 1
            assert "forerun/server/site/index.html" in names  # tests/test_packaging.py has the rest
            archive.extractall(tmp_path / name / "installed")
        found, why = clib.load(tmp_path / name / "installed" / "forerun" / build.LIBRARY)
        assert why is None
        sources = source / "src/forerun/models/native/csrc"
        assert found.fr_build().decode().split()[0] == build.fingerprint(kind, sources)

    pure = wheel(tmp_path / "pure", unpacked, CC="nonesuch")
    assert pure.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(pure) as archive:
        assert f"forerun/{build.LIBRARY}" not in archive.namelist()
