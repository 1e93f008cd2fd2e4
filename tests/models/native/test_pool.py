"""The pool of threads: many callers, forks, rounding modes, and Python beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from forerun import clib
from forerun.models.base import Step
from forerun.models.native.kernels import Arena, Matrix, Pool
from models.native.small import CASES, PATHS, TEXT, decoded, file, load, same_bits
from models.native.test_kernels import activations, weights

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return file(tmp_path_factory.mktemp("file"), "qwen3", layers=1)


@pytest.fixture(scope="module")
def rows(path):
    return decoded(load(path), TEXT[:24])


def in_threads(*functions) -> None:
    """Run at once; what one raises is raised here."""
    raised: list[BaseException] = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_there_is_one_pool_for_each_number_of_threads():
    assert Pool.of(3) is Pool.of(3)
    assert Pool.of(3) is not Pool.of(2)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_models_in_several_python_threads(threads, path, rows):
    """They share a pool; calls queue. Five threads are more than the cores of many machines."""

    def reads():
        for _ in range(2):
            model = load(path, threads=threads)
            same_bits(decoded(model, TEXT[:4]), rows[:4])
            slot = model.open()
            same_bits(model.extend([Step(slot=slot, tokens=TEXT[:24])])[0], rows)

    in_threads(reads, reads, reads)


def test_pools_of_several_sizes_at_once(path, rows):
    def reads(threads):
        return lambda: same_bits(decoded(load(path, threads=threads), TEXT[:12]), rows[:12])

    in_threads(reads(1), reads(2), reads(3))


def test_many_short_calls_and_long_pauses():
    """Threads that spin, and threads that have gone to sleep."""
    matrix = Matrix.packed("Q8_0", 64, 64, weights("Q8_0", 64, 64), Pool.of(2), Arena())
    x = activations(1, 64)
    expected = matrix.times(x, Pool.of(1), PATHS[0])
    for pause in (0, 0.0003, 0.02):
        for _ in range(200 if not pause else 10):
            same_bits(matrix.times(x, Pool.of(2), PATHS[0]), expected)
            time.sleep(pause)


def test_pools_come_and_go():
    for threads in (9, 10, 9, 17):
        pool = Pool.of(threads)
        matrix = Matrix.packed("Q4_0", 400, 64, weights("Q4_0", 400, 64), pool, Arena())
        x = activations(2, 64)
        same_bits(matrix.times(x, pool, PATHS[0]), matrix.times(x, Pool.of(1), PATHS[0]))
        del pool


def test_python_goes_on_during_a_pass():
    """The interpreter's lock is released: a thread counts while the other is in C."""
    pool = Pool.of(1)
    width = 4096
    matrix = Matrix.packed("F32", 512, width, weights("F32", 512, width), pool, Arena())
    x = activations(64, width)
    counted = [0]
    running = threading.Event()

    def counts():
        running.set()
        while running.is_set():
            counted[0] += 1
            time.sleep(0)

    counter = threading.Thread(target=counts)
    counter.start()
    running.wait()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody but a released lock lets the other thread on
    try:
        made = []
        while not made or (made[-1] == 0 and len(made) < 50):
            start = counted[0]
            matrix.times(x, pool, "portable")
            made.append(counted[0] - start)
    finally:
        sys.setswitchinterval(before)
        running.clear()
        counter.join()
    assert made[-1] > 0


# ------------------------------------------------------------------ forks

FORKED = """
import os, sys
import numpy as np
from forerun.models.base import Step
from forerun.models.native.model import NativeModel

{more}
model = NativeModel({path!r}, threads={threads})
slot = model.open()
text = (1, 5, 3, 9, 2, 2, 7, 11)
expected = model.extend([Step(slot=slot, tokens=text)])[0]

def read(model):
    model.keep(slot, 0)
    found = [model.extend([Step(slot=slot, tokens=(token,))])[0] for token in text]
    assert np.concatenate(found).tobytes() == expected.tobytes()
    other = NativeModel({path!r}, threads={threads})
    found = other.extend([Step(slot=other.open(), tokens=text)])[0]
    assert found.tobytes() == expected.tobytes()

for generation in range(2):
    child = os.fork()
    if child == 0:
        try:
            read(model)
            grandchild = os.fork()
            if grandchild == 0:
                read(model)
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 7
            read(model)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(7)
    read(model)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    read(model)
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("torch", [False, True])
def test_a_forks_child_computes_the_same(torch, threads, path):
    more = ""
    if torch:
        pytest.importorskip("torch")
        more = "import torch; torch.set_num_threads(2); torch.ones(500, 500) @ torch.ones(500, 500)"
    code = FORKED.format(path=str(path), threads=threads, more=more)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_model_may_be_left_open_at_exit(path):
    code = (
        "from forerun.models.native.model import NativeModel;"
        f"model = NativeModel({str(path)!r}, threads=3); slot = model.open()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------ torch beside it


def test_torch_in_another_thread(path, rows):
    torch = pytest.importorskip("torch")
    ones = torch.ones(64, 64)

    def multiplies():
        for _ in range(50):
            assert float((ones @ ones)[0, 0]) == 64

    def reads():
        same_bits(decoded(load(path, threads=2), TEXT[:12]), rows[:12])

    in_threads(multiplies, reads)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_process_may_flush_denormals(threads):
    """Kernels count them all the same, and leave the caller's mode as it was."""
    torch = pytest.importorskip("torch")
    width = 64
    small = np.full((16, width), 2.0**-140, dtype=np.float32)
    matrix = Matrix.packed("F32", 16, width, small.view(np.uint8), Pool.of(threads), Arena())
    x = np.full((2, width), 0.5, dtype=np.float32)
    exact = matrix.times(x, Pool.of(threads), PATHS[0])
    assert exact[0, 0] == width * 2.0**-141
    if not torch.set_flush_denormal(True):
        pytest.skip("this machine cannot flush denormals")
    try:
        flushes = float(torch.full((1,), 2.0**-140) * 0.5) == 0
        found = [matrix.times(x, Pool.of(threads), path) for path in PATHS]
        still = float(torch.full((1,), 2.0**-140) * 0.5) == 0
    finally:
        torch.set_flush_denormal(False)
    assert flushes
    assert still
    for each in found:
        same_bits(each, exact)


@pytest.mark.parametrize("case", CASES)
def test_a_model_gives_the_same_with_denormals_flushed(case, tmp_path):
    torch = pytest.importorskip("torch")
    path = file(tmp_path, case, layers=1)
    expected = decoded(load(path), TEXT[:5])
    if not torch.set_flush_denormal(True):
        pytest.skip("this machine cannot flush denormals")
    try:
        same_bits(decoded(load(path), TEXT[:5]), expected)
    finally:
        torch.set_flush_denormal(False)
