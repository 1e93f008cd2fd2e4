"""The NEON path, on emulated aarch64: the same bits as the portable path, and as this machine's.

driver.c prints checksums of packing, products and passes for each instruction path. It is built
for aarch64 with the library as `build.py` cross-compiles it, and here with the library under test.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from forerun import clib
from forerun.models.native import build, kernels

CROSS, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64"
ROOT = "/usr/aarch64-linux-gnu"
HERE = ("cc", "gcc", "clang")

pytestmark = [
    pytest.mark.skipif(clib.library() is None, reason="the C library was not built"),
    pytest.mark.skipif(not any(map(shutil.which, HERE)), reason="no C compiler"),
]


def driver(out: Path, cc: list[str], library: Path) -> Path:
    source = Path(__file__).with_name("driver.c")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{build.SOURCES}"]
    where = f"-Wl,-rpath,{library.parent}"
    subprocess.run(
        [*cc, *flags, str(source), "-o", str(out), str(library), where, "-lm"], check=True
    )
    return out


def checksums(command: list[str]) -> dict[str, dict[str, str]]:
    """By path and case."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=True)
    found: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        path, case, checksum = line.split()
        found.setdefault(path, {})[case] = checksum
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("here")
    return checksums([str(driver(folder / "driver", build.compiler(), clib.PLACE))])


def test_all_paths_of_this_machine_agree(here):
    assert len(here["any"]) == len(kernels.TYPES)  # packed matrices
    assert tuple(here) == ("any", *kernels.paths())
    for path in kernels.paths():
        assert here[path] == here["portable"], path
    assert len(here["portable"]) > 100
    assert len(set(here["portable"].values())) == len(here["portable"])  # no case is another's


def aarch64_agrees(here, folder: Path, cc: str) -> None:
    library = folder / "libforerun.so"
    assert build.build(library, cc) == "aarch64"
    made = driver(folder / "driver", [CROSS], library)
    there = checksums([QEMU, "-L", ROOT, str(made)])
    assert there.pop("any") == here["any"]
    assert set(there) == {"neon", "portable"}
    assert there["portable"] == here["portable"]
    assert there["neon"] == here["portable"]


needs_cross = pytest.mark.skipif(
    not (shutil.which(CROSS) and shutil.which(QEMU)),
    reason=f"needs {CROSS} and {QEMU} (Debian: gcc-aarch64-linux-gnu, qemu-user)",
)


@needs_cross
def test_aarch64_gives_the_same_bits(here, tmp_path):
    """Compiled quickly."""
    cc = tmp_path / "cc"
    cc.write_text(f'#!/bin/sh\nexec {CROSS} "$@" -O1\n')  # the last -O counts
    cc.chmod(0o755)
    aarch64_agrees(here, tmp_path, str(cc))


@needs_cross
@pytest.mark.long
def test_aarch64_gives_the_same_bits_as_it_is_shipped(here, tmp_path):
    aarch64_agrees(here, tmp_path, CROSS)
