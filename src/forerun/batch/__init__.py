"""Offline batches: a file of requests in, a file of answers out, whatever happens in between.

    source.py    the input: lines by number, read from disk as they are needed
    lines.py     a line as a request         desk.py     requests to the engine, answers as records
    output.py    the output: whole records, and which lines have theirs
    identity.py  what an output was made from         run.py      all of it, some lines at a time

A record names its run and its line in its `id`. So the output alone says what is done, and by which
run; there is no second file that could disagree with it.
"""

from __future__ import annotations

from forerun.batch.desk import Desk, Terms
from forerun.batch.identity import Identity
from forerun.batch.output import Output
from forerun.batch.run import Batch, Tally
from forerun.batch.source import Source

__all__ = ["Batch", "Desk", "Identity", "Output", "Source", "Tally", "Terms"]
