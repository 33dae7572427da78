"""This module checks the door to the environment: cargo is told of every variable that mattered."""

from __future__ import annotations

import pytest

from cudabuild.errors import ConfigError
from cudabuild.host import Environment, search_path
from cudabuild.nvcc.quoting import refuse


def test_variable_that_was_asked_for_is_remembered_set_or_not() -> None:
    env = Environment({"CPATH": "/x", "INCLUDES": "/y"})
    assert (env.get("CPATH"), env.get("NVCC"), env.peek("INCLUDES")) == ("/x", None, "/y")
    assert env.names_read == {"CPATH", "NVCC"}


def test_variables_of_a_child_are_its_own() -> None:
    env = Environment({"A": "1"})
    env.copy()["A"] = "2"
    assert env.get("A") == "1"


def test_variable_that_no_record_can_hold_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="CPATH"):
        Environment({"CPATH": "/x/\udcff"}).get("CPATH")


@pytest.mark.parametrize("kind", ["source", "folder", "crate", "flag"])
def test_path_that_no_record_can_hold_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="UTF-8"):
        refuse(kind, "k/\udcff.cu", "source")  # type: ignore[arg-type]


def test_programs_come_in_the_order_of_the_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    first, second = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    for folder, mode in ((first, 0o644), (second, 0o755)):
        (folder / "nvcc").write_text("")
        (folder / "nvcc").chmod(mode)
    assert search_path("nvcc", f"{first}:{second}:{first}/nvcc") == [str(second / "nvcc")]
