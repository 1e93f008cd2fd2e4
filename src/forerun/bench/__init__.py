"""Measures systems beside each other: forerun's ways to decode, and other engines as peers.

workloads.py   named sets of real prompts           systems.py    what a system's name means
workers/       one process for each engine          process.py    speaking with such a process
runner.py      items, repeats, who runs when        figures.py    records -> medians and ranges
passes.py      cost of a pass over 1 … 16 rows      bandwidth.py  how fast memory can be read
report.py      Markdown and JSON                    plot.py       a picture (extra `plots`)
"""
