"""Puts web/pictures/out/*.png into docs/playground/ with 64 colours each, so that they stay small.

    python web/pictures/shrink.py

Flat pages need few colours; without dithering they pack well. Says how much the folder holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
PLACE = HERE.parents[1] / "docs/playground"
COLOURS = 64
LIMIT = 4_000_000  # bytes, of the whole folder


def main() -> int:
    found = sorted((HERE / "out").glob("*.png"))
    if not found:
        sys.exit("no pictures: `npm run pictures` in web/ takes them")
    PLACE.mkdir(parents=True, exist_ok=True)
    for path in found:
        with Image.open(path) as picture:
            small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            small.save(PLACE / path.name, optimize=True)
    held = sum(path.stat().st_size for path in PLACE.glob("*.png"))
    print(f"{len(found)} pictures, {held / 1e6:.2f} MB in docs/playground/")
    return 0 if held <= LIMIT else f"more than {LIMIT / 1e6:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
