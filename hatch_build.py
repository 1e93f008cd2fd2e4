"""Build hook: compile the C library when a wheel is made, or in place for an editable install.

The wheel is tagged py3-none-PLATFORM: the library is called through ctypes and knows no Python, so
one wheel serves them all. Where it cannot be built the wheel is a pure one, which runs the slow
NumPy path and says so when it matters.
"""

from __future__ import annotations

import importlib.util
import platform
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface):
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        library = _load(Path(self.root) / "src/forerun/models/native/build.py")
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


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("forerun_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
