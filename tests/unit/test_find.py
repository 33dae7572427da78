"""This module tests where nvcc is looked for, on fake trees with an executable nvcc in each known layout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cudabuild.errors import ToolchainError
from cudabuild.host import Environment
from cudabuild.nvcc import find


def put(path: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def toolkit(root: Path, libraries: str = "lib64") -> str:
    """A toolkit's tree; returns its nvcc."""
    put(root / "include" / "cuda_runtime.h")
    put(root / libraries / "libcudart_static.a")
    put(root / "bin" / "nvcc.profile")
    return put(root / "bin" / "nvcc", f"#!/bin/sh\necho {root}\n")


class Machine:
    """A system root with nothing in it, and a search in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = Environment({})
        (root / "crate").mkdir(parents=True)

    def find(self, setting: str | None = None, wheels: tuple[Path, ...] = (), /, **variables: str) -> find.Candidate:
        self.env = Environment({"PATH": "", **variables})
        return find.find(
            setting, self.env, crate_root=str(self.root / "crate"), system_root=str(self.root),
            python_path=[str(folder) for folder in wheels],
        )  # fmt: skip

    def error(self, setting: str | None = None, /, **variables: str) -> ToolchainError:
        with pytest.raises(ToolchainError) as caught:
            self.find(setting, **variables)
        return caught.value


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def test_each_explicit_choice_beats_those_after_it_and_path_and_the_usual_folders(machine: Machine, tmp_path: Path) -> None:
    toolkit(machine.root / "usr/local/cuda")
    names = ["setting", "NVCC", "CUDACXX", "CUDA_HOME", "CUDA_PATH"]
    nvccs = {name: toolkit(tmp_path / name) for name in names}
    values = {name: str(tmp_path / name) for name in names} | {name: nvccs[name] for name in ("NVCC", "CUDACXX")}
    path = os.path.dirname(toolkit(tmp_path / "on-path"))
    for index, name in enumerate(names):
        later = {other: values[other] for other in names[index:] if other != "setting"}
        found = machine.find(values["setting"] if name == "setting" else None, **{**later, "PATH": path})
        assert found.nvcc == nvccs[name]
    assert machine.find(PATH=path).nvcc == str(tmp_path / "on-path/bin/nvcc")
    assert machine.find(PATH=path).origin == "PATH"
    assert machine.find().nvcc == str(machine.root / "usr/local/cuda/bin/nvcc")


def test_the_setting_may_be_a_root_or_an_nvcc_and_starts_at_the_crate(machine: Machine) -> None:
    nvcc = toolkit(machine.root / "crate" / "tk")
    assert machine.find("tk").nvcc == nvcc
    assert machine.find("tk/").nvcc == nvcc
    assert machine.find("tk/bin/nvcc").nvcc == nvcc
    assert machine.find(nvcc).origin == "the `toolkit` setting"


def test_nvcc_variable_may_be_a_name_on_path(machine: Machine, tmp_path: Path) -> None:
    nvcc = put(tmp_path / "tools" / "nvcc-12.4")
    found = machine.find(NVCC="nvcc-12.4", PATH=str(tmp_path / "tools"))
    assert (found.nvcc, found.origin) == (nvcc, "NVCC")
    assert "which is not on PATH" in machine.error(NVCC="nvcc-12.5", PATH=str(tmp_path / "tools")).message


def test_trailing_slash_of_cuda_home_means_nothing(machine: Machine, tmp_path: Path) -> None:
    nvcc = toolkit(tmp_path / "T1")
    assert machine.find(CUDA_HOME=f"{tmp_path}/T1//").nvcc == nvcc


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (":/a:/b", "looks like a list"),
        ("/nowhere/cuda", "does not exist"),
        ("{T1} ", "white space at its end"),
        ("{T1}/bin/nvcc", "is not a folder"),
        ("{T1}/bin", "has no usable nvcc"),
    ],
)
@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_unusable_root_is_an_error_that_names_variable_and_value(
    machine: Machine, tmp_path: Path, variable: str, value: str, says: str
) -> None:
    toolkit(machine.root / "usr/local/cuda")  # never a silent guess instead
    toolkit(tmp_path / "T1")
    value = value.format(T1=tmp_path / "T1")
    error = machine.error(**{variable: value})
    assert f"{variable} is {value!r}" in error.message
    assert says in error.message
    assert variable in error.hint


@pytest.mark.parametrize("variable", ["NVCC", "CUDACXX"])
def test_unusable_nvcc_is_an_error_that_names_variable_and_value(machine: Machine, tmp_path: Path, variable: str) -> None:
    toolkit(machine.root / "usr/local/cuda")
    plain = put(tmp_path / "plain" / "nvcc", mode=0o644)
    for value, says in (
        ("/nowhere/nvcc", "does not exist"),
        (plain, "is not executable"),
        (str(tmp_path / "plain"), "is not a file"),
        (f"/usr/bin/ccache {plain}", "arguments cannot be given"),
    ):
        error = machine.error(**{variable: value})
        assert f"{variable} is {value!r}" in error.message
        assert says in error.message


def test_unusable_setting_is_an_error(machine: Machine) -> None:
    toolkit(machine.root / "usr/local/cuda")
    error = machine.error("tk")
    assert "the `toolkit` setting is 'tk', which does not exist" in error.message
    assert "root folder" in error.hint


def test_empty_variable_is_unset_and_said_so(machine: Machine) -> None:
    toolkit(machine.root / "usr/local/cuda")
    found = machine.find(CUDA_HOME="")
    assert found.origin == "/usr/local"
    assert found.notes == ("CUDA_HOME is set but empty: taken as unset",)


def test_cuda_home_and_another_nvcc_on_path_make_a_note(machine: Machine, tmp_path: Path) -> None:
    first, second = toolkit(tmp_path / "T1"), toolkit(tmp_path / "T2")
    found = machine.find(CUDA_HOME=str(tmp_path / "T1"), PATH=os.path.dirname(second))
    assert found.nvcc == first
    assert len(found.notes) == 1
    assert "CUDA_HOME" in found.notes[0] and first in found.notes[0] and "PATH" in found.notes[0] and second in found.notes[0]


def test_two_explicit_choices_that_disagree_make_a_note(machine: Machine, tmp_path: Path) -> None:
    first, second = toolkit(tmp_path / "T1"), toolkit(tmp_path / "T2")
    found = machine.find(NVCC=first, CUDA_HOME=str(tmp_path / "T2"))
    assert found.nvcc == first
    assert len(found.notes) == 1
    assert "CUDA_HOME leads to another one, " + second in found.notes[0]


def test_the_setting_that_overrides_a_variable_makes_a_note_but_another_nvcc_on_path_does_not(
    machine: Machine, tmp_path: Path
) -> None:
    toolkit(tmp_path / "T1")
    second = toolkit(tmp_path / "T2")
    assert machine.find(str(tmp_path / "T1"), PATH=os.path.dirname(second)).notes == ()
    (note,) = machine.find(str(tmp_path / "T1"), CUDA_HOME=str(tmp_path / "T2"), PATH=os.path.dirname(second)).notes
    assert "from the `toolkit` setting; CUDA_HOME leads to another one" in note


def test_an_unusable_choice_that_does_not_decide_makes_a_note(machine: Machine, tmp_path: Path) -> None:
    found = machine.find(NVCC=toolkit(tmp_path / "T1"), CUDA_HOME="/nowhere")
    assert found.notes == ("CUDA_HOME is '/nowhere', which does not exist; it is not used, for NVCC comes first",)


def test_two_names_of_one_nvcc_make_no_note(machine: Machine, tmp_path: Path) -> None:
    nvcc = toolkit(tmp_path / "cuda-13.0")
    (tmp_path / "cuda").symlink_to("cuda-13.0")
    wrapper = put(tmp_path / "wrapper" / "nvcc", f'#!/bin/sh\nexec {nvcc} "$@"\n')
    for path in (os.path.dirname(nvcc), os.path.dirname(wrapper)):
        assert machine.find(CUDA_HOME=str(tmp_path / "cuda"), CUDA_PATH=str(tmp_path / "cuda-13.0"), PATH=path).notes == ()


def test_order_of_path_decides_between_two_wrappers(machine: Machine, tmp_path: Path) -> None:
    one = put(tmp_path / "a" / "nvcc", f'#!/bin/sh\nexec {toolkit(tmp_path / "T1")} "$@"\n')
    two = put(tmp_path / "b" / "nvcc", f'#!/bin/sh\nexec {toolkit(tmp_path / "T2")} "$@"\n')
    assert machine.find(PATH=f"{tmp_path}/a:{tmp_path}/b").nvcc == one
    assert machine.find(PATH=f"{tmp_path}/b:{tmp_path}/a").nvcc == two


def test_compiler_cache_named_nvcc_is_passed_over(machine: Machine, tmp_path: Path) -> None:
    put(tmp_path / "usr/bin/ccache")
    (tmp_path / "masquerade").mkdir()
    (tmp_path / "masquerade/nvcc").symlink_to(tmp_path / "usr/bin/ccache")
    nvcc = toolkit(tmp_path / "T1")
    assert machine.find(PATH=f"{tmp_path}/masquerade:{os.path.dirname(nvcc)}").nvcc == nvcc
    assert "is a link to ccache" in machine.error(NVCC=str(tmp_path / "masquerade/nvcc")).message


def test_link_to_nvcc_outside_its_toolkit_is_followed(machine: Machine, tmp_path: Path) -> None:
    """Called by a name with no nvcc.profile beside it, nvcc does not find its own headers."""
    nvcc = toolkit(tmp_path / "T1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/nvcc").symlink_to(nvcc)
    assert machine.find(PATH=str(tmp_path / "links")).nvcc == nvcc


def test_link_to_a_toolkit_keeps_its_name(machine: Machine) -> None:
    toolkit(machine.root / "usr/local/cuda-13.0")
    (machine.root / "usr/local/cuda").symlink_to("cuda-13.0")
    assert machine.find().nvcc == str(machine.root / "usr/local/cuda/bin/nvcc")


@pytest.mark.parametrize("libraries", ["lib64", "lib", "targets/x86_64-linux/lib"])
def test_usual_folder_is_found_whatever_its_library_folder_is_called(machine: Machine, libraries: str) -> None:
    nvcc = toolkit(machine.root / "usr/local/cuda-12.4", libraries)
    assert machine.find().nvcc == nvcc


def test_newest_of_the_usual_folders_by_number(machine: Machine) -> None:
    for version in ("9.2", "12.9", "12.10", "11", "x"):
        toolkit(machine.root / f"usr/local/cuda-{version}")
    toolkit(machine.root / "opt/cuda")
    assert machine.find().nvcc == str(machine.root / "usr/local/cuda-12.10/bin/nvcc")
    toolkit(machine.root / "usr/local/cuda")
    assert machine.find().nvcc == str(machine.root / "usr/local/cuda/bin/nvcc")


def test_opt_cuda_is_found(machine: Machine) -> None:
    nvcc = toolkit(machine.root / "opt/cuda")
    assert (machine.find().nvcc, machine.find().origin) == (nvcc, "/opt")


@pytest.mark.parametrize("names_nvcc_in_bin", [True, False])
def test_debian_layout_is_found(machine: Machine, names_nvcc_in_bin: bool) -> None:
    nvcc = toolkit(machine.root / "usr/lib/nvidia-cuda-toolkit", "../x86_64-linux-gnu")
    if names_nvcc_in_bin:
        script = put(machine.root / "usr/bin/nvcc", f'#!/bin/sh\nexec {nvcc} "$@"\n')
        nvcc = script
    found = machine.find()
    assert (found.nvcc, found.origin) == (nvcc, "Debian")


def test_conda_is_found_after_the_usual_folders_and_beats_them_on_path(machine: Machine, tmp_path: Path) -> None:
    nvcc = toolkit(tmp_path / "conda", "targets/x86_64-linux/lib")
    conda = str(tmp_path / "conda")
    assert machine.find(CONDA_PREFIX=conda).origin == "CONDA_PREFIX"
    usual = toolkit(machine.root / "usr/local/cuda")
    assert machine.find(CONDA_PREFIX=conda).nvcc == usual
    assert machine.find(CONDA_PREFIX=conda, PATH=os.path.dirname(nvcc)).nvcc == nvcc


def test_python_wheels_are_found_newest_first(machine: Machine, tmp_path: Path) -> None:
    toolkit(tmp_path / "site" / "nvidia" / "cu9", "lib")
    toolkit(tmp_path / "site" / "nvidia" / "cu13", "lib")
    newest = toolkit(tmp_path / "site" / "nvidia" / "cu14", "lib")
    put(tmp_path / "empty" / "nvidia" / "cuda_runtime" / "__init__.py")
    found = machine.find(None, (tmp_path / "missing.zip", tmp_path / "empty", tmp_path / "site"))
    assert (found.nvcc, found.origin) == (newest, "Python package nvidia-cuda-nvcc")


def test_nothing_found_lists_every_place_and_the_cures(machine: Machine, tmp_path: Path) -> None:
    error = machine.error(CONDA_PREFIX=str(tmp_path / "conda"), CUDA_HOME="")
    for place in (
        "NVCC is not set", "CUDACXX is not set", "CUDA_HOME is empty", "CUDA_PATH is not set", "PATH has no nvcc",
        f"{machine.root}/usr/local/cuda/bin/nvcc does not exist", f"{machine.root}/opt/cuda/bin/nvcc does not exist",
        f"{machine.root}/usr/bin/nvcc does not exist", f"{tmp_path}/conda/bin/nvcc does not exist",
        "nvidia-cuda-nvcc is not installed",
    ):  # fmt: skip
        assert place in error.message
    for cure in ("PATH", "CUDA_HOME", "toolkit", "pip install 'cudabuild[cuda13]'"):
        assert cure in error.hint


def test_path_is_announced_only_when_nothing_was_found(machine: Machine, tmp_path: Path) -> None:
    nvcc = toolkit(tmp_path / "T1")
    machine.find(PATH=os.path.dirname(nvcc))
    assert machine.env.names_read == {"NVCC", "CUDACXX", "CUDA_HOME", "CUDA_PATH"}
    machine.error()
    assert machine.env.names_read == {"NVCC", "CUDACXX", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "PATH"}
