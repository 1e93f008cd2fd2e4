"""The command line: `forerun generate | chat | certify | models`."""

from __future__ import annotations


def main() -> None:
    """The `forerun` command."""
    import io
    import os
    import sys

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and mode == "w":
            stream.reconfigure(
                errors="backslashreplace"
            )  # what the encoding lacks is no reason to fail
    try:
        from forerun.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while importing, or while saying what was wrong
        code = 130
    sys.exit(code)
