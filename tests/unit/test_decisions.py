"""This module checks when an object of the last build is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cudabuild.cache.decisions import Decision, decide, summary
from cudabuild.cache.keys import KeyChange, Reading, Request
from cudabuild.cache.reading import Disk
from cudabuild.cache.record import Made
from cudabuild.files import Digests, digest_file
from cudabuild.graph.units import Unit
from cudabuild.roots import Roots

UNIT = Unit("a.cu", "cuda", "a-1")
REQUEST = Request(source="@crate/a.cu", flags=("-O3",), environment=(), tools=(("nvcc", "d"),), commands="c")


class Case:
    def __init__(self, root: Path) -> None:
        self.source, self.object = root / "a.cu", root / "a-1.o"
        self.source.write_text("source")
        self.object.write_text("object")
        self.roots = Roots(str(root), str(root / "out"))
        reading = Reading(files=(("@crate/a.cu", digest_file(str(self.source))),), absent=("@crate/z.h",))
        self.made = Made(
            request=REQUEST, reading=reading, object=digest_file(str(self.object)), output="", milliseconds=1
        )

    def decide(self, request: Request = REQUEST, made: Made | None = None, first: bool = False) -> Decision:
        made = None if first else made or self.made
        return decide(UNIT, request.flags, request, made, str(self.object), Disk(Digests({})), self.roots)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_object_is_kept_when_nothing_changed(case: Case) -> None:
    assert case.decide().action == "keep"
    assert case.decide().changes == ()


def test_unit_without_an_earlier_object_is_compiled(case: Case) -> None:
    decision = case.decide(first=True)
    assert (decision.action, decision.changes, decision.made) == ("compile", (), None)
    assert "first" in decision.reason


def test_changed_request_is_compiled(case: Case) -> None:
    decision = case.decide(msgspec.structs.replace(REQUEST, flags=("-O2",)))
    assert decision.action == "compile"
    assert [change.kind for change in decision.changes] == ["flags"]


def test_changed_file_is_compiled_and_named(case: Case) -> None:
    case.source.write_text("other")
    assert (case.decide().action, case.decide().reason) == ("compile", "a.cu changed")


def test_new_header_is_compiled_and_named(case: Case) -> None:
    (case.source.parent / "z.h").write_text("")
    assert (case.decide().action, case.decide().reason) == ("compile", "z.h appeared")


def test_untracked_reading_is_always_compiled(case: Case) -> None:
    reading = msgspec.structs.replace(case.made.reading, untracked=("a.cu reads files by .incbin",))
    assert case.decide(made=msgspec.structs.replace(case.made, reading=reading)).action == "compile"


@pytest.mark.parametrize(
    ("damage", "reason"), [("delete", "missing"), ("edit", "altered"), ("empty", "altered"), ("folder", "missing")]
)
def test_object_that_is_not_the_one_that_was_made_is_made_again(case: Case, damage: str, reason: str) -> None:
    """C18: it is judged by its bytes."""
    case.object.unlink()
    if damage == "folder":
        case.object.mkdir()
    elif damage != "delete":
        case.object.write_text({"edit": "0bject", "empty": ""}[damage])
    decision = case.decide()
    assert decision.action == "compile"
    assert reason in decision.reason


def test_earlier_object_is_handed_on_with_every_decision(case: Case) -> None:
    """Its files' stamps before the compile tell whether they moved."""
    assert case.decide().made == case.made
    case.source.write_text("other")
    assert case.decide().made == case.made


def test_summary_names_the_first_change_and_counts_the_rest() -> None:
    one, two = KeyChange("file", "@crate/a.h", "x", "y"), KeyChange("file", "@crate/b.h", "x", "y")
    assert summary((one,)) == "a.h changed"
    assert summary((one, two, two)) == "a.h changed, and 2 more"
