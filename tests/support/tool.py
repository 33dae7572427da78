"""This module runs the program under test: as a new interpreter, or as a fork of this one, which is many times as fast.

A fork is a process of its own with its own streams, environment and working folder, and the parent never runs a build, so it starts
from nothing like a new interpreter does; only the imports are done already. CUDABUILD_TEST_PROCESS=1 makes every run a new one.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple, cast

PATIENCE = 60


class Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def run_process(arguments: list[str], cwd: Path, env: dict[str, str], pass_fds: tuple[int, ...] = ()) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "cudabuild", *arguments], cwd=cwd, env=env, pass_fds=pass_fds, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="surrogateescape", timeout=PATIENCE, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def run_fork(arguments: list[str], cwd: Path, env: dict[str, str]) -> Done:
    if os.environ.get("CUDABUILD_TEST_PROCESS") == "1":
        return run_process(arguments, cwd, env)
    program = load_whole_tool()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if child == 0:
            _become(program, arguments, cwd, env, (stdout, stderr))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return Done(code, _text(stdout), _text(stderr))


def _become(
    program: Callable[[], None], arguments: list[str], cwd: Path, env: dict[str, str], streams: tuple[IO[bytes], IO[bytes]]
) -> None:
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, stream in enumerate(streams, 1):
            os.dup2(stream.fileno(), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", errors="surrogateescape", closefd=False) for number in (1, 2))
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        signal.alarm(PATIENCE)
        sys.argv = ["cudabuild", *arguments]
        program()
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:  # noqa: BLE001 (whatever happens, the child must not go on as a second test run)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "surrogateescape")


@functools.cache
def load_whole_tool() -> Callable[[], None]:
    """Imports every module of the tool, and the libraries that it imports late; gives the entry point of the program."""
    import cudabuild

    for module in pkgutil.walk_packages(cudabuild.__path__, "cudabuild."):
        if module.name != "cudabuild.__main__":
            importlib.import_module(module.name)
    for name in ("filelock", "ninja", "shutil", "ctypes", "glob", "tomllib" if sys.version_info >= (3, 11) else "tomli"):
        importlib.import_module(name)
    return cast("Callable[[], None]", importlib.import_module("cudabuild.__main__").run)
