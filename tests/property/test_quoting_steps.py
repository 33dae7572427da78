"""This module checks that a command's arguments get through the script, ninja and sh as they are."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cudabuild.ninja.process import find_ninja
from cudabuild.ninja.steps import Step, outcome, write

NINJA = find_ninja(os.environ["PATH"])

characters = st.one_of(
    st.sampled_from("$`\"'\\ \t\n!*?[]{}()<>|&;#~=%^:,-aü"),
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
    st.sampled_from("\udc80\udcff"),  # bytes that are not UTF-8
)  # fmt: skip
arguments = st.lists(st.text(characters, max_size=10), max_size=5)
file_names = st.text(characters, min_size=1, max_size=8).filter(
    lambda name: "/" not in name and name not in (".", "..") and "\n" not in name
)


@settings(max_examples=60, deadline=None)
@given(
    arguments, file_names, st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), max_size=8)
)
def test_arguments_reach_the_program_as_they_are(argv: list[str], folder: str, summary: str) -> None:
    """Whatever the folder of the build is called, and whatever ninja shows for it."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary, folder)
        root.mkdir()
        step = Step(
            name="k", summary=summary, argv=("sh", "-c", 'printf "%s\\0" "$@" > echoed', "sh", *argv), cwd=str(root),
            folder=str(root / "0/k"), temporary="0/k/tmp",
        )  # fmt: skip
        file = write([step], str(root / "0"), None)
        done = subprocess.run([NINJA, "-f", file], cwd=root, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout
        assert outcome(step).exit_code == 0
        echoed = (root / "echoed").read_bytes()
        assert echoed == b"".join(os.fsencode(argument) + b"\0" for argument in argv) or (not argv and echoed == b"\0")
