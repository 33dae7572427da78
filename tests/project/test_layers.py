"""This module holds the package to its shape: imports point one way, modules stay small, and a build imports little."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cudabuild

PACKAGE = Path(cudabuild.__file__).parent

LAYERS = (
    "cudabuild",
    "errors", "files", "host", "streams", "elf", "locks", "roots",
    "config", "graph", "nvcc", "cache", "ninja",
    "outdir", "archive", "compile",
    "cargo",
    "report.schema", "report.summary", "report.compose",
    "pipeline",
    "report.output",
    "checks", "report.findings", "doctor", "scaffold", "housekeeping",
    "__main__",
)  # fmt: skip
"""From the ground up: a module imports from its own package and from those before it. `cudabuild` is the version."""

# They cost 5 to 60 ms each, at every run of a build script; whoever needs one imports it in the function that does.
SLOW = {
    "subprocess", "filelock", "rich", "shutil", "tempfile", "dataclasses", "pathlib", "click", "ninja", "watchdog",
    "importlib.resources", "importlib.metadata", "tomllib", "tomli", "ctypes", "asyncio", "logging", "glob",
}  # fmt: skip
# argparse itself takes shutil when it prints help; doctor and init are for people, who wait for other things.
FOR_PEOPLE = ("checks", "report.findings", "doctor", "scaffold")


def name_of(path: Path) -> str:
    """`cache.keys` for cudabuild/cache/keys.py; a package's own module has the package's name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "cudabuild"


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(tree: ast.AST, *, top_level: bool = False) -> Iterator[str]:
    """The full names of what is imported, without what only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imports(other, top_level=top_level)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (top_level and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))):
            yield from imports(node, top_level=top_level)


def parsed(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def own_imports(name: str) -> set[str]:
    """The modules of this package that a module imports, at the top or in a function."""
    found = set()
    for imported in imports(parsed(name)):
        if imported == "cudabuild" or imported.startswith("cudabuild."):
            parts = imported.split(".")[1:]
            while parts and ".".join(parts) not in MODULES:
                parts.pop()  # a name in a module
            found.add(".".join(parts) or "cudabuild")
    return found - {name}


def layer(name: str) -> int:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in LAYERS:
            return LAYERS.index(".".join(parts[:end]))
    raise AssertionError(f"{name} has no place in LAYERS: say what it may import")


def test_there_are_modules() -> None:
    assert {"cudabuild", "__main__", "pipeline", "cache.keys", "ninja.process"} <= MODULES.keys()


@pytest.mark.parametrize("name", [name for name in MODULES if name != "report"])
def test_module_imports_only_from_the_layers_below_it(name: str) -> None:
    wrong = {imported for imported in own_imports(name) if imported != "report" and layer(imported) > layer(name)}
    assert wrong == set()


def test_no_modules_import_each_other() -> None:
    """Also within a package, also inside functions."""
    waiting = {name: own_imports(name) for name in MODULES}
    while ready := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in ready:
            del waiting[name]
    assert waiting == {}, "these wait for each other"


def test_packages_own_modules_hold_a_docstring_alone() -> None:
    """To import one room must not open all of them."""
    for name, path in MODULES.items():
        if path.name == "__init__.py" and name != "cudabuild":
            assert len(parsed(name).body) == 1, name


@pytest.mark.parametrize("name", MODULES)
def test_module_begins_with_what_it_is(name: str) -> None:
    docstring = ast.get_docstring(parsed(name)) or ""
    kind = "package" if MODULES[name].name == "__init__.py" else "module"
    if name != "cudabuild":
        assert docstring.startswith(f"This {kind} ")
    assert docstring.partition("\n\n")[0].rstrip().endswith((".", ":"))


@pytest.mark.parametrize("name", MODULES)
def test_module_has_400_lines_at_most(name: str) -> None:
    assert len(MODULES[name].read_text().splitlines()) <= 400


@pytest.mark.parametrize("name", MODULES)
def test_module_takes_nothing_slow_at_its_top(name: str) -> None:
    taken = set(imports(parsed(name), top_level=True))
    slow = {module for module in SLOW for imported in taken if imported == module or imported.startswith(f"{module}.")}
    assert slow == set() or name.startswith(FOR_PEOPLE) and not slow & {"dataclasses", "pathlib", "click"}


@pytest.mark.parametrize("name", MODULES)
def test_module_keeps_plain_paths_and_msgspecs_values(name: str) -> None:
    assert not {"dataclasses", "pathlib", "click"} & {imported.partition(".")[0] for imported in imports(parsed(name))}


def loaded(code: str) -> set[str]:
    program = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_of_the_build_is_cheap() -> None:
    """What a build script pays at every run."""
    found = loaded("import cudabuild.__main__, cudabuild.pipeline, cudabuild.report.output")
    assert "cudabuild.pipeline" in found
    assert {module for module in found if module in SLOW or module.partition(".")[0] in SLOW} == set()


def test_import_of_doctor_is_not_paid_by_a_build() -> None:
    found = loaded("import cudabuild.__main__, cudabuild.pipeline, cudabuild.report.output")
    assert not {name for name in found if name.removeprefix("cudabuild.").startswith(FOR_PEOPLE)}
