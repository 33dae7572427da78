"""This module checks that the tests notice when the tool is broken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutations import MUTATIONS, Mutation
from run import REPOSITORY, Copy


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("mutants") / "tree")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_text_of_a_mutation_is_found(mutation: Mutation) -> None:
    assert (REPOSITORY / "cudabuild" / mutation.file).read_text().count(mutation.old) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(tree: Copy, mutation: Mutation) -> None:
    assert tree.survives(mutation) == ""
