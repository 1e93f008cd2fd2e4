"""Rows are the same bits as those of plain decoding: whatever shares the pass, on every path.

The reference is plain decoding, one token a pass, by the portable path with one thread. Every check
is also run on models with a planted fault, and must find it.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from forerun import clib
from forerun.models.base import Step
from forerun.models.native import model as model_module
from forerun.models.native import plan
from forerun.models.native.model import NativeModel
from forerun.models.native.rows import Rows, lay_out
from models.native.small import CASES, PATHS, TEXT, decoded, file, load, same_bits

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {case: file(folder, case) for case in CASES}


@pytest.fixture(scope="module")
def plain(files):
    """Of each file the rows of TEXT, by plain decoding."""
    return {case: decoded(load(path, "portable"), TEXT) for case, path in files.items()}


def read(model: NativeModel, count: int) -> int:
    slot = model.open()
    model.extend([Step(slot=slot, tokens=TEXT[:count], rows=0)])
    return slot


# ------------------------------------------------------------------ the checks


def widths(model: NativeModel, rows: np.ndarray, most: int = 32) -> None:
    """1 to 32 rows at once, after prompts of a page and more; rolled back after each."""
    for prompt in (9, 50, 135):
        slot = read(model, prompt)
        for width in range(1, most + 1):
            found = model.extend([Step(slot=slot, tokens=TEXT[prompt : prompt + width])])[0]
            same_bits(found, rows[prompt : prompt + width])
            model.keep(slot, prompt)
        model.close(slot)


def chunks(model: NativeModel, rows: np.ndarray) -> None:
    """Prompts in chunks of any size, also of more rows than a call into C takes."""
    for size in (3, 31, 64, 65, 127, 128, 129, 200):
        slot = model.open()
        for start in range(0, len(TEXT), size):
            wanted = min(size, len(TEXT) - start, 5)
            chunk = TEXT[start : start + size]
            found = model.extend([Step(slot=slot, tokens=chunk, rows=wanted)])[0]
            end = start + len(chunk)
            same_bits(found, rows[end - wanted : end])
        model.close(slot)


def random_tree(dice: random.Random, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    tokens = tuple(dice.randrange(23) for _ in range(count))
    return tokens, tuple(dice.choice((i - 1, dice.randrange(-1, i))) for i in range(count))


def ways(parents: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for i, parent in enumerate(parents):
        found.append((*(found[parent] if parent >= 0 else ()), i))
    return found


def trees(model: NativeModel, rows: np.ndarray) -> None:
    """Each node of random trees, and what is decoded after a path of it was kept."""
    dice = random.Random(1)
    beside, slot = model.open(), model.open()
    for start, count in [(0, 9), (5, 16), (60, 12), (77, 32), (126, 7), (150, 20)]:
        for each in (beside, slot):
            model.keep(each, 0)
            model.extend([Step(slot=each, tokens=TEXT[:start], rows=0)])
        tokens, parents = random_tree(dice, count)
        paths = ways(parents)
        found = model.extend([Step(slot=slot, tokens=tokens, parents=parents)])[0]
        for row, path in zip(found, paths, strict=True):
            model.keep(beside, start)
            expected = decoded(model, [tokens[i] for i in path], beside)
            same_bits(row, expected[-1])
        path = max(paths, key=lambda path: (path[-1] - len(path), path))
        assert path != tuple(range(len(path)))
        model.keep(slot, start + len(path), path=path)
        model.keep(beside, start)
        decoded(model, [tokens[i] for i in path], beside)
        after = TEXT[:6]
        same_bits(model.extend([Step(slot=slot, tokens=after)])[0], decoded(model, after, beside))
    model.close(slot)
    model.close(beside)


def batches(model: NativeModel, rows: np.ndarray) -> None:
    """Slots of ragged lengths, with ragged steps, in any order; more than 128 rows together."""
    dice = random.Random(2)
    lengths = [0, 3, 17, 64, 65, 120]
    slots = {read(model, length): length for length in lengths}
    for most in (1, 2, 8, 50):
        company = dice.sample(sorted(slots), dice.randint(3, len(slots)))
        counts = [dice.randint(1, most) for _ in company]
        steps = [
            Step(slot=slot, tokens=TEXT[slots[slot] : slots[slot] + count])
            for slot, count in zip(company, counts)
        ]
        for step, found in zip(steps, model.extend(steps)):
            start = slots[step.slot]
            same_bits(found, rows[start : start + len(step.tokens)])
            model.keep(step.slot, start)
    for slot in slots:
        model.close(slot)


CHECKS = (widths, chunks, trees, batches)


# ------------------------------------------------------------------ where they hold


def test_rows_of_other_prefixes_differ(plain):
    for rows in plain.values():
        assert len(np.unique(rows.view(np.int32), axis=0)) == len(rows)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("check", CHECKS)
def test_every_row_is_that_of_plain_decoding(check, case, path, files, plain):
    check(load(files[case], path), plain[case])


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("case", ["llama", "gemma3"])
def test_threads_change_nothing(case, threads, files, plain):
    """Few passes: threads that wait for each other are slow where cores are busy."""
    model, rows = load(files[case], threads=threads), plain[case]
    slot, other = model.open(), model.open()
    start = 0
    for width in (1, 2, 3, 5, 8, 9, 16, 31, 1, 64):
        end = start + width
        found = model.extend(
            [
                Step(slot=slot, tokens=TEXT[start:end]),
                Step(slot=other, tokens=TEXT[start // 2 : end // 2]),
            ]
        )
        same_bits(found[0], rows[start:end])
        same_bits(found[1], rows[start // 2 : end // 2])
        start = end


@pytest.mark.parametrize("case", CASES)
def test_without_the_library_rows_are_as_faithful(case, tmp_path):
    model = load(file(tmp_path, case, layers=1, hidden=256), "numpy")
    rows = decoded(model, TEXT[:100])
    slot = model.open()
    for start, end in [(0, 2), (2, 40), (40, 41), (41, 100)]:
        same_bits(model.extend([Step(slot=slot, tokens=TEXT[start:end])])[0], rows[start:end])


def test_calls_into_c_may_take_any_number_of_rows(files, plain, monkeypatch):
    for most in (1, 5, 8, 40):
        usual = plan.Plan.__init__.__kwdefaults__
        monkeypatch.setattr(plan.Plan.__init__, "__kwdefaults__", {**usual, "max_rows": most})
        model = load(files["llama"])
        assert model._runner._max_rows == most
        chunks(model, plain["llama"])
        trees(model, plain["llama"])


def test_a_tree_of_many_rows(files):
    """Its later calls into C see cells that the earlier ones wrote."""
    model = load(files["gemma3"])
    tokens, parents = random_tree(random.Random(6), 150)
    slot, beside = read(model, 20), read(model, 20)
    found = model.extend([Step(slot=slot, tokens=tokens, parents=parents)])[0]
    for i, path in list(enumerate(ways(parents)))[::13]:
        model.keep(beside, 20)
        same_bits(found[i], decoded(model, [tokens[j] for j in path], beside)[-1])


@pytest.mark.parametrize("case", ["llama", "gemma3"])
def test_whole_trees_of_several_slots(case, files):
    """64 nodes each in one pass; each row, and each kept path goes on, as if decoded alone."""
    dice = random.Random(case)
    model = load(files[case])
    starts = (3, 64, 120)
    slots = [read(model, start) for start in starts]
    drawn = [random_tree(dice, 64) for _ in slots]
    steps = [Step(slot=slot, tokens=t, parents=p) for slot, (t, p) in zip(slots, drawn)]
    found = model.extend(steps)
    for slot, start, (tokens, parents), rows in zip(slots, starts, drawn, found):
        beside = read(model, start)
        for row, path in zip(rows, ways(parents), strict=True):
            model.keep(beside, start)
            same_bits(row, decoded(model, [tokens[i] for i in path], beside)[-1])
        path = max(ways(parents), key=len)
        assert len(path) > 8
        model.keep(slot, start + len(path), path=path)
        model.keep(beside, start)
        decoded(model, [tokens[i] for i in path], beside)
        same_bits(model.extend([Step(slot=slot, tokens=TEXT[:5])])[0],
                  decoded(model, TEXT[:5], beside))  # fmt: skip
        model.close(beside)


# ------------------------------------------------------------------ faults they must find


def several_rows_in_another_order(monkeypatch):
    """As if passes over several rows added up in another order: the last place differs."""
    right = plan.Plan.run

    def run(self, rows: Rows):
        found = right(self, rows)
        return found if len(rows) == 1 else np.nextafter(found, np.float32(np.inf))

    monkeypatch.setattr(plan.Plan, "run", run)


def laid_out(change):
    def plant(monkeypatch):
        monkeypatch.setattr(
            model_module, "lay_out", lambda steps, lengths: change(lay_out(steps, lengths))
        )

    return plant


def positions_by_cell(rows: Rows) -> Rows:
    rows.positions[:] = rows.cells
    return rows


def one_cell_too_many(rows: Rows) -> Rows:
    """Rows see the next one, where there is one of the same slot."""
    after = (rows.slots[1:] == rows.slots[:-1]) & (rows.cells[1:] == rows.cells[:-1] + 1)
    rows.shared[:-1][after & (np.diff(rows.path_start)[:-1] == 0)] += 1
    return rows


def one_position_late_in_all_slots_but_the_first(rows: Rows) -> Rows:
    rows.positions[rows.slots != rows.slots[:1]] += 1
    return rows


def moves_nothing(monkeypatch):
    monkeypatch.setattr(plan.Plan, "move", lambda *given: None)


def forgets_a_page(monkeypatch):
    right = plan.Plan.reserve

    def reserve(self, slot, cells):
        if cells > 64 and self.cells(slot) == 64:
            right(self, slot, 0)
        right(self, slot, cells)

    monkeypatch.setattr(plan.Plan, "reserve", reserve)


@pytest.mark.parametrize(
    ("plant", "found_by"),
    [
        (several_rows_in_another_order, CHECKS),
        (laid_out(positions_by_cell), (trees,)),
        (laid_out(one_cell_too_many), CHECKS),
        (laid_out(one_position_late_in_all_slots_but_the_first), (batches,)),
        (moves_nothing, (trees,)),
        (forgets_a_page, (chunks,)),
    ],
    ids=["order", "positions", "visible", "slots", "moves", "pages"],
)
def test_faults_are_found(plant, found_by, files, plain, monkeypatch):
    plant(monkeypatch)
    for check in found_by:
        with pytest.raises(AssertionError):
            check(load(files["qwen3"]), plain["qwen3"])
