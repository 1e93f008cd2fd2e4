"""The `forerun` command with the fake model, for tests that need a process of its own.

With `tty` as first argument, standard input becomes the controlling terminal, so that Ctrl-C works.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

if sys.argv[1] == "tty":
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    del sys.argv[1]

import forerun.cli.session
from cli.fakes import load_model
from forerun.cli import main

forerun.cli.session.load_model = load_model

if __name__ == "__main__":
    main()
