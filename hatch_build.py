"""Build backend and build hook: hatchling, with the C library and the page.

The library is compiled when a wheel is made, or in place for an editable install. The wheel is
tagged py3-none-PLATFORM: the library is called through ctypes and knows no Python, so one wheel
serves them all. Where it cannot be built the wheel is a pure one, which runs the slow NumPy path
and says so when it matters.

The page (web/) is built where a wheel or a source package is made and it is not there yet; without
it there is no package. Node for that is asked for as a dependency only where this machine has none.
An editable install builds no page: its server says with which command to.
"""

from __future__ import annotations

import importlib.util
import platform
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling import build as _hatchling
from hatchling.build import *  # noqa: F403
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """No Node: hatchling asks hooks what they need without saying what for."""
    page = _load("web/build.py", Path(__file__).parent)
    wanted = _hatchling.get_requires_for_build_editable(config_settings)
    return [one for one in wanted if one != page.NODE_WHEEL]


class BuildHook(BuildHookInterface):
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        page = _load("web/build.py", Path(self.root))
        return [] if page.built() or page.found_npm() is not None else [page.NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            self._page()
        if self.target_name == "wheel":
            self._library(version, build_data)

    def _page(self) -> None:
        page = _load("web/build.py", Path(self.root))
        if page.built():
            return
        try:
            page.build(say=self.app.display_info)
        except page.BuildError as error:
            raise RuntimeError(f"forerun's page was not built: {error}") from None

    def _library(self, version: str, build_data: dict[str, Any]) -> None:
        library = _load("src/forerun/models/native/build.py", Path(self.root))
        out = library.PLACE
        if version != "editable":
            self._folder = tempfile.TemporaryDirectory(prefix="forerun-wheel-")
            out = Path(self._folder.name) / library.LIBRARY
        try:
            kind = library.build(out)
        except library.BuildError as error:
            self.app.display_warning(f"forerun's C library was not built: {error}")
            return
        if version != "editable":
            build_data["force_include"][str(out)] = f"forerun/{library.LIBRARY}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform(kind)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _platform(kind: str) -> str:
    """The wheel's platform, for the kind of machine the compiler compiles for."""
    system = sysconfig.get_platform()  # linux-x86_64, macosx-11.0-universal2, …
    if kind in ("x86_64", "aarch64"):
        name = "arm64" if kind == "aarch64" and platform.system() == "Darwin" else kind
        system = f"{system.rpartition('-')[0]}-{name}"
    return system.replace("-", "_").replace(".", "_")


def _load(file: str, root: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"forerun_{Path(file).parent.name}", root / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
