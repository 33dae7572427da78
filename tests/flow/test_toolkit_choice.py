"""This module checks which toolkit, host compiler and architectures are taken, and what is said when they cannot be."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from toolkit import FakeToolkit, install_host_compiler, install_wrapper
from workspace import REPOSITORY, Changes, Report, Workspace


def searched(report: Report) -> list[str]:
    return [value.partition("=")[2] for value in report.values("rustc-link-search")]


def runtime_folders(report: Report) -> list[str]:
    return [folder for folder in searched(report) if (Path(folder) / "libcudart_static.a").exists()]


def used(workspace: Workspace, toolkit: FakeToolkit) -> bool:
    """The objects name the toolkit's version; each toolkit of a test has one of its own."""
    return f"# ptxas {toolkit.version}" in workspace.archive_text()


@pytest.mark.parametrize("layout", ["lib64", "lib", "targets/x86_64-linux/lib"])
def test_library_folder_is_found_in_every_layout(prover: Workspace, layout: str) -> None:
    """C25 (1) to (3)"""
    toolkit = FakeToolkit(prover.root / "toolkit", version="13.0.1", library_folder=layout)
    report = prover.build_under_cargo(env={"CUDA_HOME": str(toolkit.root), "PATH": prover.system_path})
    assert used(prover, toolkit)
    assert [Path(folder).resolve() for folder in runtime_folders(report)] == [toolkit.libraries.resolve()]


def test_stubs_are_searched_only_for_the_driver_library(prover: Workspace) -> None:
    """C25"""
    assert not [folder for folder in searched(prover.build_under_cargo()) if folder.endswith("/stubs")]
    prover.config(link=["dylib=cuda"])
    report = prover.build_under_cargo()
    assert [folder for folder in searched(report) if folder.endswith("/stubs")]
    assert "rpath" not in report.stdout


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_explicit_variable_beats_the_path(prover: Workspace, variable: str) -> None:
    """C25, C26"""
    other = FakeToolkit(prover.root / "other", version="13.1.5")
    report = prover.build_under_cargo(env={variable: str(other.root)})
    assert used(prover, other)
    assert report.data["toolkit"]["nvcc"] == str(other.nvcc)
    assert variable in report.data["toolkit"]["origin"]
    told = [value for key, value in report.directives if key != "warning"]
    assert not [value for value in told if str(prover.toolkit.root) in value]


@pytest.mark.parametrize("variable", ["NVCC", "CUDACXX"])
def test_variable_that_names_an_nvcc_is_taken(prover: Workspace, variable: str) -> None:
    """C25"""
    other = FakeToolkit(prover.root / "other", version="13.1.5")
    report = prover.build_under_cargo(env={variable: str(other.nvcc)})
    assert used(prover, other)
    assert [Path(folder).resolve() for folder in runtime_folders(report)] == [other.libraries]


def test_configured_toolkit_beats_the_variables(prover: Workspace) -> None:
    """C25"""
    other = FakeToolkit(prover.root / "other", version="13.1.5")
    prover.config(toolkit=str(other.root))
    prover.build_under_cargo(env={"CUDA_HOME": str(prover.toolkit.root)})
    assert used(prover, other)


def test_option_beats_the_configured_toolkit(prover: Workspace) -> None:
    """C25"""
    other = FakeToolkit(prover.root / "other", version="13.1.5")
    prover.config(toolkit=str(prover.toolkit.root))
    prover.build("--toolkit", str(other.nvcc))
    assert used(prover, other)


@pytest.mark.parametrize("value", [":/usr/local/cuda-9.0:/usr/local/cuda-8.0", "/does/not/exist", "{root} "])
def test_unusable_variable_is_named_with_its_value(prover: Workspace, value: str) -> None:
    """C25 (6)"""
    value = value.format(root=prover.toolkit.root)
    report = prover.build(env={"CUDA_HOME": value}, expect=3)
    assert "CUDA_HOME" in report.error and value.strip() in report.error
    assert prover.nvcc_calls() == []


@pytest.mark.parametrize("form", ["{root}/", "{root}/bin/..", "{root}//"])
def test_harmless_spelling_of_the_variable_works(prover: Workspace, form: str) -> None:
    """C25 (6)"""
    prover.build(env={"CUDA_HOME": form.format(root=prover.toolkit.root), "PATH": prover.system_path})
    assert used(prover, prover.toolkit)


def test_empty_variable_is_an_unset_one(prover: Workspace) -> None:
    """C25 (6)"""
    prover.build(env={"CUDA_HOME": "", "CUDA_PATH": "", "NVCC": ""})
    assert used(prover, prover.toolkit)


def test_no_toolkit_at_all_says_what_to_do(prover: Workspace) -> None:
    """C25"""
    # Without site-packages, since nvcc may be installed there; the tool's own libraries are linked into a folder.
    libraries = prover.root / "libraries"
    libraries.mkdir()
    for name in ("msgspec", "ninja", "filelock"):
        (libraries / name).symlink_to(Path(importlib.import_module(name).__file__ or "").parent)
    env = {**prover.environment(), "PATH": prover.system_path, "PYTHONPATH": f"{REPOSITORY}:{libraries}"}
    command = [sys.executable, "-S", "-m", "cudabuild", *prover.arguments()]
    done = subprocess.run(command, cwd=prover.crate, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    report = Report(done.returncode, done.stdout, done.stderr, json.loads(done.stdout))
    assert "nvcc" in report.error and "CUDA_HOME" in report.error
    assert report.data["toolkit"] is None
    assert report.data["error"]["hint"]


def test_wrapper_on_the_path_leads_to_its_toolkit(prover: Workspace) -> None:
    """C26"""
    install_wrapper(prover.root / "usr/bin/nvcc", prover.toolkit.nvcc)
    report = prover.build_under_cargo(env={"PATH": f"{prover.root}/usr/bin:{prover.system_path}"})
    assert used(prover, prover.toolkit)
    assert [Path(folder).resolve() for folder in runtime_folders(report)] == [prover.toolkit.libraries]
    prover.compiles()
    (prover.toolkit.root / "bin/ptxas").write_text("patched\n")
    prover.build_under_cargo(env={"PATH": f"{prover.root}/usr/bin:{prover.system_path}"})
    assert len(prover.compiles()) == 3


def test_first_wrapper_on_the_path_decides_about_everything(prover: Workspace) -> None:
    """C26"""
    other = FakeToolkit(prover.root / "other", version="13.1.5")
    install_wrapper(prover.root / "one/nvcc", other.nvcc)
    install_wrapper(prover.root / "two/nvcc", prover.toolkit.nvcc)
    report = prover.build_under_cargo(env={"PATH": f"{prover.root}/one:{prover.root}/two:{prover.system_path}"})
    assert used(prover, other)
    assert [Path(folder).resolve() for folder in runtime_folders(report)] == [other.libraries]
    assert str(prover.toolkit.root) not in report.stdout


def test_link_named_nvcc_leads_to_its_toolkit(prover: Workspace) -> None:
    """C26: called through the link, nvcc would not find its profile."""
    (prover.root / "links").mkdir()
    (prover.root / "links/nvcc").symlink_to(prover.toolkit.nvcc)
    prover.build(env={"PATH": f"{prover.root}/links:{prover.system_path}"})
    assert used(prover, prover.toolkit)


def test_variable_and_path_that_disagree_are_noted(prover: Workspace) -> None:
    """C26"""
    other = FakeToolkit(prover.root / "other", version="13.1.5")
    report = prover.build(env={"CUDA_HOME": str(other.root)})
    assert used(prover, other)
    assert str(prover.toolkit.nvcc) in report.stderr + " ".join(report.data["warnings"])


# Host compiler


@pytest.mark.parametrize("way", ["host-compiler", "--host-compiler", "NVCC_CCBIN", "CXX", "HOST_CXX"])
def test_chosen_host_compiler_is_used_in_every_call(prover: Workspace, way: str) -> None:
    """C27"""
    compiler = install_host_compiler(prover.root / "tools/g++-own", marker="my own")
    arguments: list[str] = []
    env: Changes = {}
    if way == "host-compiler":
        prover.config(host_compiler=str(compiler))
    elif way == "--host-compiler":
        arguments = ["--host-compiler", str(compiler)]
    else:
        env = {way: str(compiler)}
    report = prover.build(*arguments, env=env)
    assert "program my own" in prover.archive_text()
    assert report.data["toolkit"]["host_compiler"] == str(compiler)


@pytest.mark.parametrize("way", ["host-compiler", "NVCC_CCBIN"])
def test_missing_host_compiler_is_named_with_where_it_came_from(prover: Workspace, way: str) -> None:
    """C27"""
    if way == "host-compiler":
        prover.config(host_compiler="/usr/bin/g++-99")
    report = prover.build(env={"NVCC_CCBIN": "/usr/bin/g++-99"} if way == "NVCC_CCBIN" else {}, expect=3)
    assert "/usr/bin/g++-99" in report.error and way in report.error
    assert len(prover.nvcc_calls()) == 0


def test_compiler_that_the_toolkit_does_not_support_is_refused_once_before_any_compile(prover: Workspace) -> None:
    """C27: the words are those of the real toolkit's crt/host_config.h."""
    refusal = "#error -- unsupported GNU version! gcc versions later than 3 are not supported! The nvcc flag '-allow-unsupported-compiler'"
    prover.toolkit.put("include/crt/host_config.h", f"#pragma once\n{refusal}\n")
    report = prover.build(expect=3)
    assert "unsupported GNU version" in report.error and f"{prover.root}/host/gcc" in report.error and "NVCC_CCBIN" in report.error
    assert prover.nvcc_calls() == []


def test_unsupported_compiler_is_never_allowed_on_the_users_behalf(prover: Workspace) -> None:
    """C27"""
    prover.build()
    assert not [word for call in prover.nvcc_calls() for word in call["argv"] if "allow-unsupported" in word]


# Architectures


@pytest.mark.parametrize("arch", ["70", "sm_70", "compute_70", "130", "130a"])
def test_architecture_the_toolkit_lacks_is_refused_before_any_compile(prover: Workspace, arch: str) -> None:
    """C29"""
    prover.config(arch=["80", arch])
    report = prover.build(expect=(2, 3))
    number = arch.rpartition("_")[2]
    assert number in report.error and "13.0.88" in report.error and "121" in report.error
    assert report.stderr.count(f"sm_{number}") <= 1, "one message, not one for each source"
    assert prover.nvcc_calls() == []


@pytest.mark.parametrize(
    ("arch", "code"),
    [("90a", "code compute_90a sm_90a"), ("100f", "code compute_100f sm_100f"), ("compute_90", "code compute_90 compute_90")],
)
def test_special_architectures_pass_through(prover: Workspace, arch: str, code: str) -> None:
    """C29"""
    prover.config(arch=[arch])
    prover.build()
    assert code in prover.archive_text()


def test_architecture_of_an_older_toolkit_is_not_served_after_its_upgrade(prover: Workspace) -> None:
    """C29"""
    older = FakeToolkit(prover.root / "cuda-12.4", version="12.4.131", archs="70 75 80 90")
    prover.config(arch=["70"])
    prover.build(env={"CUDA_HOME": str(older.root)})
    prover.compiles()
    prover.build(expect=(2, 3))


@pytest.mark.parametrize("way", ["arch", "flags"])
def test_native_without_a_gpu_is_never_silent(prover: Workspace, way: str) -> None:
    """C28"""
    prover.config(**({"arch": ["native"]} if way == "arch" else {"flags": ["-arch=native"]}))
    report = prover.build_under_cargo(expect=(0, 2, 3))
    if report.exit_code == 0:
        assert [text for text in report.values("warning") if "native" in text]
    else:
        assert "native" in report.error


EVIL = "$(touch PWNED)"


@pytest.mark.parametrize("way", ["--host-compiler", "NVCC_CCBIN", "CXX", "-ccbin", "NVCC", "--toolkit", "wrapper"])
def test_path_of_a_tool_is_never_run_as_a_command(prover: Workspace, way: str) -> None:
    """nvcc puts it into commands for sh."""
    compiler = str(install_host_compiler(prover.root / EVIL / "g++"))
    toolkit = FakeToolkit(prover.root / EVIL / "cuda")
    wrapper = install_wrapper(prover.root / "usr/bin/nvcc", prover.toolkit.nvcc)
    wrapper.write_text(f"#!/bin/sh\nexec '{toolkit.nvcc}' \"$@\"\n")
    arguments: dict[str, list[str]] = {"--host-compiler": [way, compiler], "--toolkit": [way, str(toolkit.root)]}
    env: dict[str, Changes] = {
        "NVCC_CCBIN": {way: compiler.replace(EVIL, "`touch PWNED`")}, "CXX": {way: compiler}, "NVCC": {way: str(toolkit.nvcc)},
        "-ccbin": {"NVCC_APPEND_FLAGS": f"-ccbin='{compiler}'"}, "wrapper": {"NVCC": str(wrapper)},
    }  # fmt: skip
    report = prover.build(*arguments.get(way, []), env=env.get(way), expect=2)
    assert "PWNED" in report.error and "shell" in report.error
    assert not list(prover.root.rglob("PWNED"))
    assert prover.nvcc_calls() == []


def test_host_compiler_script_that_adds_something_else_today_is_noticed(prover: Workspace) -> None:
    """Its bytes are the same ones."""
    script = prover.root / "script/g++"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {prover.root}/host/gcc $ADDED "$@"\n')
    script.chmod(0o755)
    prover.config(host_compiler=str(script))
    prover.build(env={"ADDED": "-DMODE=1"})
    assert prover.build(env={"ADDED": "-DMODE=1"}).compiled == []
    assert len(prover.build(env={"ADDED": "-DMODE=2"}).compiled) == 3
