"""`cudabuild init`: which files it writes, what it guesses, and what it refuses to touch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudabuild.config.load import load
from cudabuild.config.schema import Overrides
from cudabuild.errors import ConfigError
from cudabuild.host import Environment
from cudabuild.scaffold import guess_sources, init, template

MANIFEST = '[package]\nname = "gpu-prover"\nversion = "0.1.0"\nedition = "2021"\n'


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    (tmp_path / "Cargo.toml").write_text(MANIFEST)
    return tmp_path


def never(question: str) -> bool:
    raise AssertionError(f"asked: {question}")


def answering(answer: bool, asked: list[str]) -> Callable[[str], bool]:
    def ask(question: str) -> bool:
        asked.append(question)
        return answer

    return ask


def put(folder: Path, *names: str, text: str = "") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def config(folder: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = msgspec.toml.decode((folder / "cudabuild.toml").read_bytes())
    return parsed


def snapshot(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_fresh_crate_gets_both_files_without_a_question(crate: Path) -> None:
    put(crate, "kernels/msm.cu", "kernels/include/field.cuh")
    lines = init(str(crate), force=False, ask=never)
    assert (crate / "build.rs").read_text() == template("build.rs")
    assert config(crate) == {
        "name": "gpu_prover_cuda", "sources": ["kernels/*.cu"], "include": ["kernels/include"], "arch": ["80", "90"],
        "std": "c++17",
    }
    assert lines[:2] == ["wrote build.rs", "wrote cudabuild.toml"]
    assert any("kernels/*.cu" in line for line in lines) and any("cargo build" in line for line in lines)


def test_nothing_but_the_two_files_is_left_behind(crate: Path) -> None:
    init(str(crate), force=False, ask=never)
    assert sorted(os.listdir(crate)) == ["Cargo.toml", "build.rs", "cudabuild.toml"]


@pytest.mark.parametrize("uncommented", [False, True])
def test_what_is_written_is_a_configuration_and_so_is_what_is_commented_out_in_it(crate: Path, uncommented: bool) -> None:
    put(crate, "Cargo.toml", text=MANIFEST + "[features]\nquiet = []\n")
    init(str(crate), force=False, ask=never)
    text = (crate / "cudabuild.toml").read_text()
    if uncommented:
        text = "\n".join(line.removeprefix("# ") for line in text.splitlines()[1:])
        (crate / "cudabuild.toml").write_text(text)
    loaded = load(str(crate), Environment({}), Overrides(feature=("quiet",), profile="dev"))
    assert (loaded.name, loaded.arch, loaded.std) == ("gpu_prover_cuda", ("80", "90"), "c++17")
    assert (loaded.lineinfo, "QUIET" in loaded.define, loaded.opt == 1) == (uncommented,) * 3


@pytest.mark.parametrize(
    ("present", "sources", "include"),
    [
        ([], [], []),
        (["src/k.cu", "src/lib.rs"], ["src/*.cu"], []),
        (["cuda/a.cu", "cuda/ntt/b.cu"], ["cuda/**/*.cu"], []),
        (["kernels/a.cu", "cuda/b.cu"], ["kernels/*.cu", "cuda/*.cu"], []),
        (["kernels/a.cuh", "cuda/b.cu"], ["cuda/*.cu"], []),
        (["kernels/a.cu", "include/a.cuh"], ["kernels/*.cu"], ["include"]),
        (["target/package/kernels/a.cu", "other/a.cu"], [], []),
    ],
)
def test_sources_are_guessed_from_the_files(
    crate: Path, present: list[str], sources: list[str], include: list[str]
) -> None:
    put(crate, *present)
    guess = guess_sources(str(crate))
    assert (list(guess.sources), list(guess.include)) == (sources, include)


@pytest.mark.parametrize("includer", ["cuda/all.cu", "cuda/all.cuh"])
def test_a_cu_file_that_another_file_includes_is_no_source(crate: Path, includer: str) -> None:
    put(crate, "cuda/main.cu", "cuda/ntt.cu", "cuda/msm.cu")
    put(crate, includer, text='#include "ntt.cu"\n  #  include <msm.cu>\n// #include "main.cu"\n')
    roots = {"cuda/main.cu"} | ({includer} if includer.endswith(".cu") else set())
    assert set(guess_sources(str(crate)).sources) == roots


def test_without_sources_the_next_step_says_where_they_go(crate: Path) -> None:
    lines = init(str(crate), force=False, ask=never)
    assert any("kernels/" in line and "none was found" in line for line in lines)


def test_a_file_name_with_quotes_stays_valid_toml(crate: Path) -> None:
    put(crate, 'cuda/a "b".cu', text='#include "c.cu"')
    put(crate, "cuda/c.cu")
    init(str(crate), force=False, ask=never)
    assert config(crate)["sources"] == ['cuda/a "b".cu']


def test_it_asks_before_it_overwrites_and_keeps_what_it_may_not(crate: Path) -> None:
    put(crate, "build.rs", text="fn main() {}\n")
    put(crate, "cudabuild.toml", text="name = 'mine'\n")
    before = snapshot(crate)
    asked: list[str] = []
    lines = init(str(crate), force=False, ask=answering(False, asked))
    assert snapshot(crate) == before
    assert len(asked) == 2 and "build.rs" in asked[0] and "cudabuild.toml" in asked[1]
    assert any('Command::new("cudabuild").arg("build")' in line for line in lines)


def test_a_yes_overwrites(crate: Path) -> None:
    put(crate, "build.rs", text="fn main() {}\n")
    init(str(crate), force=False, ask=answering(True, []))
    assert (crate / "build.rs").read_text() == template("build.rs")


def test_force_overwrites_without_a_question(crate: Path) -> None:
    put(crate, "build.rs", "cudabuild.toml", text="old")
    init(str(crate), force=True, ask=never)
    assert "old" not in snapshot(crate).values()


def test_a_second_run_has_nothing_to_ask(crate: Path) -> None:
    init(str(crate), force=False, ask=never)
    lines = init(str(crate), force=False, ask=None)
    assert lines[:2] == ["build.rs is up to date", "cudabuild.toml is up to date"]


def ended(question: str) -> bool:
    raise EOFError(question)


@pytest.mark.parametrize("ask", [None, ended])
@pytest.mark.parametrize("name", ["build.rs", "cudabuild.toml"])
def test_where_nobody_can_be_asked_the_error_names_the_file_and_force(
    crate: Path, name: str, ask: Callable[[str], bool] | None
) -> None:
    put(crate, name, text="mine")
    before = snapshot(crate)
    with pytest.raises(ConfigError) as caught:
        init(str(crate), force=False, ask=ask)
    assert name in caught.value.message and "--force" in caught.value.hint
    assert snapshot(crate) == before


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no Cargo.toml"):
        init(str(tmp_path), force=True, ask=None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ('[workspace]\nmembers = ["a"]\n', "describes no package"),
        ("[package\n", "not valid TOML"),
        (MANIFEST + "build = false\n", "build = false"),
        (MANIFEST + 'build = ["a.rs", "b.rs"]\n', 'build = \\["a.rs","b.rs"\\]'),
    ],
)
def test_a_manifest_that_can_have_no_build_script_is_refused(tmp_path: Path, manifest: str, said: str) -> None:
    put(tmp_path, "Cargo.toml", text=manifest)
    with pytest.raises(ConfigError, match=said):
        init(str(tmp_path), force=True, ask=None)
    assert os.listdir(tmp_path) == ["Cargo.toml"]


def test_the_script_that_the_manifest_names_is_written_and_no_other(crate: Path) -> None:
    put(crate, "Cargo.toml", text=MANIFEST + 'build = "gpu.rs"\n')
    init(str(crate), force=False, ask=never)
    assert not (crate / "build.rs").exists()
    assert "cargo:rerun-if-changed=gpu.rs" in (crate / "gpu.rs").read_text()


def test_a_named_script_that_exists_is_asked_about(crate: Path) -> None:
    put(crate, "Cargo.toml", text=MANIFEST + 'build = "gpu.rs"\n')
    put(crate, "gpu.rs", text="fn main() {}\n")
    with pytest.raises(ConfigError, match="gpu.rs is already there"):
        init(str(crate), force=False, ask=None)


def test_a_manifest_that_holds_the_configuration_gets_no_second_one(crate: Path) -> None:
    put(crate, "Cargo.toml", text=MANIFEST + '[package.metadata.cudabuild]\nsources = ["k.cu"]\n')
    lines = init(str(crate), force=False, ask=never)
    assert not (crate / "cudabuild.toml").exists() and (crate / "build.rs").exists()
    assert any("package.metadata.cudabuild" in line for line in lines)


def test_an_error_at_the_second_file_leaves_the_first_untouched(crate: Path) -> None:
    put(crate, "build.rs", text="mine")
    (crate / "cudabuild.toml").mkdir()
    with pytest.raises(ConfigError, match="cudabuild.toml is a folder"):
        init(str(crate), force=True, ask=None)
    assert snapshot(crate) == {"Cargo.toml": MANIFEST, "build.rs": "mine"}


def test_a_script_in_a_folder_that_is_missing_is_a_configuration_error(crate: Path) -> None:
    put(crate, "Cargo.toml", text=MANIFEST + 'build = "scripts/gpu.rs"\n')
    with pytest.raises(ConfigError, match="cannot write"):
        init(str(crate), force=False, ask=None)
    assert os.listdir(crate) == ["Cargo.toml"]
