"""`python -m forerun` is `forerun`."""

from __future__ import annotations

from forerun.cli import main

if __name__ == "__main__":
    main()
