"""The command line: `forerun generate | chat | certify | models`."""

from __future__ import annotations


def main() -> None:
    """The `forerun` command."""
    import sys

    try:
        from forerun.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while importing, or while saying what was wrong
        code = 130
    sys.exit(code)
