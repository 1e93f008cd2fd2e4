"""What a target pass costs: seconds of a pass over n = 1, 2, …, 64 new rows, head included.

    target_seconds(model) -> (t_1, …, t_64)        t_n ≤ t_{n+1}
    awakening(draft, target)                       what the draft's first pass of a round takes more

Measured are some widths (ROWS), in another order each time, until WITHIN seconds are over (but at
least REPEATS times), and the median of each is taken. A wider pass is taken to cost no less: where
the medians fall, the widths concerned get their mean (isotonic regression). Between them costs are
interpolated; beyond the last one they go on as its last step does. Rows beyond WIDEST, of which one
request has none, are those of a full batch: they are measured once, twice if there is time, and
left to that step where they would take long (LONG). Models of 100 million to a few billion weights
take one to three seconds.

Rows of a batch are of different slots; all measured ones are of one, behind CACHED tokens. To fill
several would take longer than to measure, and the matrices' part is the same. Attention is not:
what it adds, and what longer texts do, is learnt from the times of the rounds themselves
(`pace.py`, by number of slots and length).

A model may say what it is, in `cost_key`: a text that names its file, kernels and threads. Then the
result is kept in <cache>/costs, for this version of forerun, this processor and these rows; a file
there that cannot be read or written is no error, it is measured again. A model whose passes say
nothing (a table) states nominal costs in `pass_seconds` instead, and those are believed.

A small model that is measured by itself finds its weights in the processor's caches. In a round it
does not: the target's pass came before, and went over all of its own. The first draft token pays.

What this module does not know: what is drafted, and how the cost grows with what is cached.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import platformdirs

from forerun.errors import CacheError
from forerun.models.base import Model, Step
from forerun.models.shallow import is_part

WIDEST = 16  # rows of one request
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32, 48, 64)  # that are measured
CACHED = 128  # tokens before the measured rows
WITHIN = 1.0  # seconds
LONG = 0.25  # seconds of a pass that only a full batch needs
REPEATS, MOST_REPEATS = 3, 15
_LEAST = 1e-9  # seconds that are kept: a file holds none that are 0


def stated(model: Model) -> tuple[float, ...] | None:
    """Nominal costs of a model whose passes are not worth measuring."""
    seconds = getattr(model, "pass_seconds", None)
    return None if seconds is None else tuple(float(s) for s in seconds)


def target_seconds(
    model: Model,
    *,
    cache: Path | None = None,
    refresh: bool = False,
    clock: Callable[[], float] = perf_counter,
) -> tuple[float, ...]:
    """Seconds of a pass over 1, 2, … rows; as many as the model has room and time for.

    `cache` is the folder forerun keeps its files in (None: the user's cache); `refresh` measures
    again what is kept there.
    """
    if (nominal := stated(model)) is not None:
        return nominal
    key = _key(model)
    if key is not None and not refresh and (kept := _read(_file(key, cache), key)) is not None:
        return kept
    found = measured(model, clock)
    if key is not None and len(found) >= WIDEST:
        _write(_file(key, cache), key, found)
    return found


def awakening(
    draft: Model,
    target: Model,
    *,
    cache: Path | None = None,
    clock: Callable[[], float] = perf_counter,
) -> float:
    """Seconds that a pass of `draft` over one row takes longer right behind one of `target` than
    behind one of its own: a median. 0 where a model states its costs, has no room, or is the other
    without some of its layers. Kept as the costs are."""
    if stated(draft) is not None or stated(target) is not None:
        return 0.0
    if is_part(draft, target):
        return 0.0
    keys = _key(draft), _key(target)
    key = None if None in keys else "\n".join(("first pass", *map(str, keys)))
    if key is not None and (kept := _read(_file(key, cache), key, least=1)) is not None:
        return kept[0]
    found = _awakening(draft, target, clock)
    if key is not None and found is not None:
        _write(_file(key, cache), key, (max(found, _LEAST),))
    return found or 0.0


def _awakening(draft: Model, target: Model, clock: Callable[[], float]) -> float | None:
    longer, began = list[float](), clock()
    try:
        with contextlib.ExitStack() as opened:
            ways = [_one_row(model, opened) for model in (target, draft)]
            while len(longer) < REPEATS or (
                len(longer) < MOST_REPEATS and clock() - began < WITHIN / 4
            ):
                _, asleep, awake = ways[0](clock), ways[1](clock), ways[1](clock)
                longer.append(asleep - awake)
    except CacheError:
        return None
    return max(statistics.median(longer[1:]), 0.0)  # the first warms up


def _one_row(model: Model, opened: contextlib.ExitStack) -> Callable[[Callable[[], float]], float]:
    """Times a pass over one row, behind one, in a slot that `opened` closes."""
    slot = model.open()
    opened.callback(model.close, slot)
    model.extend([Step(slot=slot, tokens=(0,), rows=0)])

    def once(clock: Callable[[], float]) -> float:
        took = _pass(model, slot, (0,), clock)
        model.keep(slot, 1)
        return took

    return once


def measured(model: Model, clock: Callable[[], float] = perf_counter) -> tuple[float, ...]:
    """Medians of interleaved repeats, made monotone. See the module's docstring."""
    ids = [i * 7919 % model.vocab_size for i in range(CACHED + ROWS[-1])]
    before, widths = CACHED, WIDEST
    if model.context is not None:
        before = max(min(CACHED, model.context - WIDEST), 0)
        widths = min(WIDEST, model.context - before)
    try:
        slot = model.open()
    except CacheError:
        return ()
    try:
        before, widths = _room(model, slot, ids, before, widths)

        def once(n: int) -> float:
            took = _pass(model, slot, ids[before : before + n], clock)
            model.keep(slot, before)
            return took

        times = {n: list[float]() for n in (*ROWS, widths) if 0 < n <= widths}
        order, began, turns = list(times), clock(), 0
        while turns < REPEATS or (turns < MOST_REPEATS and clock() - began < WITHIN):
            random.Random(turns).shuffle(order)
            for n in order:
                times[n].append(once(n))
            turns += 1
        if widths == WIDEST:
            most = ROWS[-1] if model.context is None else model.context - before
            times |= _of_batches(once, most, statistics.median(times[widths]))
    finally:
        model.close(slot)
    return interpolated(
        list(times), monotone([statistics.median(found) for found in times.values()])
    )


def _of_batches(once: Callable[[int], float], most: int, last: float) -> dict[int, list[float]]:
    """Times of the rows beyond WIDEST, which took `last`, as far as there is room and time."""
    times: dict[int, list[float]] = {}
    before = WIDEST
    for n in (n for n in ROWS if WIDEST < n <= most):
        if last * n / before > LONG:
            break
        try:
            found = [once(n)]
            while len(found) < REPEATS and sum(found) < LONG:
                found.append(once(n))
        except CacheError:  # no memory for so many; nothing changed
            break
        times[n], before, last = found, n, statistics.median(found)
    return times


def interpolated(rows: Sequence[int], seconds: Sequence[float]) -> tuple[float, ...]:
    """Seconds of 1, 2, … rows up to the last of `rows`, which begin with 1."""
    if not rows:
        return ()
    found = [seconds[0]]
    for (low, below), (high, above) in pairwise(zip(rows, seconds)):
        step = (above - below) / (high - low)
        found += [below + step * n for n in range(1, high - low)]
        found.append(above)
    return tuple(found)


def _room(model: Model, slot: int, ids: Sequence[int], before: int, widths: int) -> tuple[int, int]:
    """Fill the cache and try the widest pass, or what there is memory for; warms up too."""
    while before + widths:
        try:
            if before:
                model.extend([Step(slot=slot, tokens=ids[:before], rows=0)])
            model.extend([Step(slot=slot, tokens=ids[before : before + widths])])
            model.keep(slot, before)
            return before, widths
        except CacheError:
            model.keep(slot, 0)
            before, widths = (before // 2, widths) if before else (0, widths // 2)
    return 0, 0


def _pass(model: Model, slot: int, tokens: Sequence[int], clock: Callable[[], float]) -> float:
    start = clock()
    (logits,) = model.extend([Step(slot=slot, tokens=tokens)])
    float(logits[-1][0])  # a device's work is over when a number is here
    return clock() - start


def monotone(values: Sequence[float]) -> tuple[float, ...]:
    """The non-decreasing sequence closest to `values`: neighbours that fall are averaged."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] >= mean:
            above, size = blocks.pop()
            mean = (above * size + mean * count) / (size + count)
            count += size
        blocks.append((mean, count))
    return tuple(mean for mean, count in blocks for _ in range(count))


def backend(model: Model) -> str:
    """The name of the backend that runs the model, as `load_model` has it."""
    parts = type(model).__module__.split(".")
    return parts[2] if parts[:2] == ["forerun", "models"] and len(parts) > 2 else parts[0]


# ------------------------------------------------------------------ kept in the user's cache


def identity(source: Path | str) -> str:
    """A file's or folder's path, size and age; what is neither, by its name."""
    path = Path(source)
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        stats = [file.stat() for file in files]
    except OSError:
        return str(source)
    size, age = sum(s.st_size for s in stats), max((s.st_mtime_ns for s in stats), default=0)
    return f"{path.resolve()}, {size} bytes, {age}"


def _key(model: Model) -> str | None:
    """All that the result depends on, in words; None where the model does not say what it is."""
    own = getattr(model, "cost_key", None)
    if own is None:
        return None
    return "\n".join(
        (
            f"forerun {version('forerun')}",
            f"{CACHED} cached, up to {ROWS[-1]} rows",
            processor(),
            backend(model),
            str(own),
        )
    )


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    with contextlib.suppress(OSError, StopIteration, IndexError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        model = next(line for line in lines if line.startswith("model name"))
        return f"{model.split(':', 1)[1].strip()}, {os.cpu_count()} cpus"
    return f"{platform.machine()} {platform.processor()}, {os.cpu_count()} cpus"


def _file(key: str, cache: Path | None) -> Path:
    folder = (cache or platformdirs.user_cache_path("forerun")) / "costs"
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read(file: Path, key: str, least: int = WIDEST) -> tuple[float, ...] | None:
    """What was measured before under this key, so many values at least; None for a file that is
    missing or not right."""
    try:
        kept: Any = json.loads(file.read_text(encoding="utf-8"))
        seconds = tuple(float(s) for s in kept["seconds"])
        good = kept["key"] == key and least <= len(seconds) <= ROWS[-1]
        good = good and all(0 < s < 1e6 for s in seconds) and list(seconds) == sorted(seconds)
        return seconds if good else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, key: str, seconds: Sequence[float]) -> None:
    """There whole or not at all; a folder that cannot be written is left alone."""
    fresh = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix=".cost-", dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump({"key": key, "seconds": list(seconds)}, out)
        os.replace(fresh, file)
    except OSError:
        if fresh is not None:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
