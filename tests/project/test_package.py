"""The package as pip builds it: exactly the package and its templates, found however it was installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import cudabuild

REPOSITORY = Path(__file__).parents[2]
METADATA = f"cudabuild-{cudabuild.__version__}.dist-info"
TEMPLATES = ("build.rs", "cudabuild.toml")


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, checkout: Path, folder: Path) -> Path:
    """What pip does for `pip wheel` and `pip install -e`, less the download of the build backend."""
    run(sys.executable, "-c", f"import scikit_build_core.build as b; b.build_{kind}({str(folder)!r})", cwd=checkout)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, so that nothing that pip does can touch the real one."""
    copy = tmp_path_factory.mktemp("checkout") / "cudabuild"
    return Path(shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".git", ".venv", "target", "*_cache")))


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def editable(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("editable", checkout, tmp_path_factory.mktemp("editable"))


class Environment:
    """A virtual environment that sees one foreign package, msgspec, and no cudabuild but what is installed into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = root / "venv/bin/python"
        run(sys.executable, "-m", "venv", "--without-pip", root / "venv", cwd=root)
        msgspec = importlib.util.find_spec("msgspec")
        assert msgspec is not None and msgspec.origin is not None
        (root / "foreign").mkdir()
        (root / "foreign/msgspec").symlink_to(Path(msgspec.origin).parent)

    def install(self, wheel: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-deps", "--no-index", "--quiet"]
        run(*pip, wheel, cwd=self.root)

    def python_says(self, code: str) -> str:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return run(self.python, "-c", code, cwd=self.root, env=variables | {"PYTHONPATH": str(self.root / "foreign")})


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


def test_the_wheel_holds_the_package_and_its_templates_and_nothing_else(wheel: Path, checkout: Path) -> None:
    package = {
        str(path.relative_to(checkout))
        for path in (checkout / "cudabuild").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected = package | {f"cudabuild/templates/{name}" for name in TEMPLATES}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if not name.startswith(METADATA)} == expected
    assert {"cudabuild/py.typed", f"{METADATA}/licenses/LICENSE-MIT", f"{METADATA}/licenses/LICENSE-APACHE"} <= names


def test_the_wheel_is_for_every_python_3_and_machine(wheel: Path) -> None:
    assert wheel.name == f"cudabuild-{cudabuild.__version__}-py3-none-any.whl"


def test_the_version_in_the_code_is_the_one_in_the_metadata(wheel: Path) -> None:
    metadata = message_from_bytes(zipfile.ZipFile(wheel).read(f"{METADATA}/METADATA"))
    assert metadata["Version"] == cudabuild.__version__


def test_the_command_leads_to_a_function_that_exists(wheel: Path, environment: Environment) -> None:
    environment.install(wheel)
    assert (environment.root / "venv/bin/cudabuild").is_file()
    environment.python_says("from importlib.metadata import entry_points as e; e(name='cudabuild')['cudabuild'].load()")


@pytest.mark.parametrize("way", ["wheel", "editable"])
def test_the_templates_are_found_however_it_was_installed(
    way: str, environment: Environment, request: pytest.FixtureRequest
) -> None:
    environment.install(request.getfixturevalue(way))
    for name in TEMPLATES:
        printed = environment.python_says(f"from cudabuild.scaffold import template; print(end=template({name!r}))")
        assert printed == (REPOSITORY / "templates" / name).read_text()
