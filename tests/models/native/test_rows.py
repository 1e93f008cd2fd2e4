"""A pass as flat rows: cells, positions, and what each row sees."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forerun.models.base import Step
from forerun.models.native.rows import Rows, lay_out


def listed(rows: Rows) -> list[list[int]]:
    return [rows.visible(r).tolist() for r in range(len(rows))]


def test_the_example_of_the_docstring():
    step = Step(slot=4, tokens=(7, 8, 9, 6), parents=(-1, 0, 0, 2), rows=2)
    rows = lay_out([step], [2])
    assert rows.tokens.tolist() == [7, 8, 9, 6]
    assert rows.slots.tolist() == [4, 4, 4, 4]
    assert rows.cells.tolist() == [2, 3, 4, 5]
    assert rows.positions.tolist() == [2, 3, 3, 4]
    assert rows.shared.tolist() == [3, 4, 3, 3]
    assert rows.path_start.tolist() == [0, 0, 0, 1, 3]
    assert rows.path_cells.tolist() == [4, 4, 5]
    assert rows.wanted.tolist() == [2, 3]
    assert listed(rows) == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 4, 5]]


def test_several_slots():
    rows = lay_out(
        [
            Step(slot=3, tokens=(1, 2, 3), rows=0),
            Step(slot=0, tokens=()),
            Step(slot=1, tokens=[5, 6], parents=(-1, -1)),
        ],
        [4, 9, 0],
    )
    assert rows.slots.tolist() == [3, 3, 3, 1, 1]
    assert rows.cells.tolist() == [4, 5, 6, 0, 1]
    assert rows.wanted.tolist() == [3, 4]
    assert listed(rows) == [[*range(5)], [*range(6)], [*range(7)], [0], [1]]


def test_nothing_is_a_pass_of_no_rows():
    rows = lay_out([], [])
    assert len(rows) == 0
    assert rows.path_start.tolist() == [0]


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, ...]:
    return tuple(draw(st.integers(-1, i - 1)) for i in range(draw(st.integers(1, 12))))


@given(st.lists(st.tuples(trees(), st.integers(0, 9)), min_size=1, max_size=3), st.booleans())
def test_a_row_sees_the_cached_and_its_own_path(cases, chains):
    steps = [
        Step(slot=i, tokens=range(len(parents)), parents=None if chains else parents)
        for i, (parents, _) in enumerate(cases)
    ]
    rows = lay_out(steps, [before for _, before in cases])
    assert rows.feed is None
    arrays = [rows.tokens, rows.positions, rows.slots, rows.cells, rows.shared, rows.path_start]
    assert all(array.dtype == np.int32 for array in [*arrays, rows.path_cells, rows.wanted])
    for first in (0, len(rows) - 1):
        at = [array[first:].ctypes.data for array in arrays]
        *found, paths = rows.addresses(first)
        assert found == at
        assert not len(rows.path_cells) or paths == rows.path_cells.ctypes.data
    r = 0
    for parents, before in cases:
        paths: list[list[int]] = []
        for i, parent in enumerate(parents):
            parent = i - 1 if chains else parent
            paths.append([*(paths[parent] if parent >= 0 else []), before + i])
            visible = rows.visible(r).tolist()
            assert visible == [*range(before), *paths[-1]]
            assert rows.cells[r] == before + i == visible[-1]
            assert rows.positions[r] == len(visible) - 1
            own = rows.path_cells[rows.path_start[r] : rows.path_start[r + 1]]
            # as much as can be is shared: the list begins where the line of cells breaks off
            assert len(own) == 0 or own[0] != rows.shared[r]
            r += 1
    assert r == len(rows) == len(rows.wanted)
