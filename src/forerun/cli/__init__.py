"""The command line: `forerun generate | chat | certify | models`."""

from __future__ import annotations


def main() -> None:
    """The `forerun` command."""
    import sys

    from forerun.cli.app import run

    sys.exit(run(sys.argv[1:]))
