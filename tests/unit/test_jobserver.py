"""This module checks which of cargo's and make's jobservers are taken, and how they are handed to ninja."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudabuild.host import Environment
from cudabuild.ninja.jobserver import Jobserver, find


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def server(flags: str, name: str = "CARGO_MAKEFLAGS") -> Jobserver | None:
    return find(Environment({name: flags}))


@pytest.mark.parametrize(
    "form",
    [
        "-j --jobserver-fds={0},{1} --jobserver-auth={0},{1}",
        "-j --jobserver-auth={0},{1}",
        " -j4 --jobserver-fds={0},{1}",
    ],
)
@pytest.mark.parametrize("name", ["CARGO_MAKEFLAGS", "MAKEFLAGS"])
def test_pipe_is_handed_on_with_its_descriptors(pipe: tuple[int, int], form: str, name: str) -> None:
    assert server(form.format(*pipe), name) == Jobserver(f" -j --jobserver-auth={pipe[0]},{pipe[1]}", pipe)


def test_fifo_is_handed_on_without_the_words_that_ninja_stumbles_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    flags = f"-j --jobserver-fds=fifo:{tmp_path}/fifo --jobserver-auth=fifo:{tmp_path}/fifo"
    assert server(flags) == Jobserver(f" -j --jobserver-auth=fifo:{tmp_path}/fifo", ())


def test_cargos_comes_before_makes(pipe: tuple[int, int], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    env = Environment(
        {
            "CARGO_MAKEFLAGS": f"--jobserver-auth={pipe[0]},{pipe[1]}",
            "MAKEFLAGS": f"--jobserver-auth=fifo:{tmp_path}/fifo",
        }
    )
    found = find(env)
    assert found is not None and found.descriptors == pipe


def test_makes_is_taken_when_cargos_cannot_be_used(pipe: tuple[int, int]) -> None:
    env = Environment(
        {"CARGO_MAKEFLAGS": "-j --jobserver-auth=990,991", "MAKEFLAGS": f"--jobserver-auth={pipe[0]},{pipe[1]}"}
    )
    found = find(env)
    assert found is not None and found.descriptors == pipe


@pytest.mark.parametrize(
    "flags",
    ["", "-j8", "-j --jobserver-auth=990,991", "-j --jobserver-auth=-2,-2", "--jobserver-auth=fifo:/no/such",
     "--jobserver-auth=x", "--jobserver-auth=", "--jobserver-auth=1", "--jobserver-auth=99999999999999999999,3"],
)  # fmt: skip
def test_what_cannot_be_used_is_no_jobserver(flags: str) -> None:
    assert server(flags) is None


def test_half_a_pipe_is_no_jobserver(pipe: tuple[int, int]) -> None:
    assert server(f"--jobserver-auth={pipe[0]},990") is None


def test_descriptors_that_are_something_else_by_now_are_no_jobserver(tmp_path: Path) -> None:
    """Whoever did not hand its pipe on left the variable all the same; the numbers may be a log file's."""
    with open(tmp_path / "log", "w") as one, open(tmp_path / "log") as two:
        assert server(f"--jobserver-auth={two.fileno()},{one.fileno()}") is None


def test_file_is_no_fifo(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert server(f"--jobserver-auth=fifo:{tmp_path}/file") is None


def test_variables_are_not_announced_to_cargo(pipe: tuple[int, int]) -> None:
    env = Environment({"CARGO_MAKEFLAGS": f"--jobserver-auth={pipe[0]},{pipe[1]}"})
    find(env)
    assert env.names_read == frozenset()
