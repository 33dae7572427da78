"""This module tests `cudabuild doctor` on machines that lack things or have them wrong: fake toolkits and tools."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from toolkit import FakeToolkit
from workspace import Workspace

from cudabuild import __main__, doctor
from cudabuild.checks.finding import Finding
from cudabuild.host import Environment
from cudabuild.nvcc import find
from cudabuild.report import findings as report

BANNER = "#!/bin/sh\n# Cuda compilation tools, release {release}, V{version}\n"
GCC_REFUSED = "#error -- unsupported GNU version! gcc versions later than 4 are not supported! The nvcc flag '-allow\n"
TOOLKIT = ("nvcc", "host-compiler", "toolkit-parts", "cudart", "gpu-archs", "trial-compile")


class Machine:
    """A machine with a fake toolkit on PATH, and this one's gcc and binutils; a test changes what it is about."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.toolkit = FakeToolkit(root / "cuda-13.0")
        self.bin = root / "bin"
        self.cwd = root
        self.tool("ninja", "echo 1.13.0.git.kitware.jobserver-pipe-1")
        self.tool("cargo", "echo cargo 1.95.0")
        self.tool("rustc", "echo rustc 1.95.0")
        self.variables = {"PATH": f"{self.toolkit.root}/bin:{self.bin}:/usr/bin:/bin"}

    def tool(self, name: str, script: str) -> Path:
        path = self.bin / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def gpu(self, capability: str = "9.0", cuda: str = "13.0") -> None:
        self.tool("nvidia-smi", f"""case "$1" in
            -q) printf 'Driver Version     : 580.1\\nCUDA Version       : {cuda}\\n' ;;
            *) echo 'NVIDIA H200, {capability}, 580.1' ;;
        esac""")  # fmt: skip

    def versions(self, **versions: str) -> None:
        """Gives the toolkit's programs a version in their text, as real ones have."""
        for name, version in versions.items():
            folder = "nvvm/bin" if name == "cicc" else "bin"
            self.toolkit.put(f"{folder}/{name}", BANNER.format(release=version[:4], version=version), mode=0o755)

    def findings(self, *checks: str, patience: float = 20) -> list[Finding]:
        """Those of the checks named, and of all when none is."""
        chosen = [check for check in doctor.CHECKS if not checks or check.id in checks]
        return doctor.examine(Environment(self.variables), str(self.cwd), patience, chosen)

    def worst(self, *checks: str) -> dict[str, str]:
        """The ids and severities of what is wrong."""
        return {one.id: one.severity for one in self.findings(*checks) if one.severity in ("warning", "error")}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    alone = {"system_root": str(tmp_path / "system"), "python_path": []}
    monkeypatch.setattr(find, "find", partial(find.find, **alone))
    monkeypatch.setattr(find, "candidates", partial(find.candidates, **alone))
    monkeypatch.setitem(sys.modules, "ninja", None)  # importing it fails
    return Machine(tmp_path)


@pytest.fixture
def crate(machine: Machine) -> Workspace:
    """A crate on that machine, set up well, in which doctor runs."""
    crate = Workspace(machine.root / "work")
    crate.write("kernels/msm.cu", "int msm;\n")
    crate.write("build.rs", "// runs cudabuild\n")
    machine.cwd = crate.crate
    return crate


def only(findings: list[Finding], id: str) -> Finding:
    (one,) = [finding for finding in findings if finding.id == id]
    return one


def test_a_machine_with_everything_can_build(machine: Machine) -> None:
    machine.gpu()
    findings = machine.findings()
    assert [one for one in findings if one.severity in ("warning", "error")] == []
    assert doctor.exit_code(findings) == 0
    assert only(findings, "nvcc").found == f"13.0.88, {machine.toolkit.nvcc} (from PATH)"
    assert only(findings, "host-compiler").found.endswith("accepted by nvcc")
    assert only(findings, "trial-compile").found == "a kernel compiles for sm_121"
    assert only(findings, "gpu").found == "NVIDIA H200 (sm_90); driver 580.1, for CUDA up to 13.0"


def test_nothing_installed_is_findings_with_cures_and_no_traceback(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine.root / "empty").mkdir()
    env = Environment({"PATH": str(machine.root / "empty")})
    assert __main__.main(["doctor"], env) == 3
    printed = capsys.readouterr()
    assert printed.err == ""
    for text in (
        "no nvcc was found",
        "gcc is not on PATH",
        "ninja is not installed",
        "ar is not on PATH",
        "cargo is not on PATH",
    ):
        assert text in printed.out
    assert printed.out.count("\nerror: ") == 4
    assert printed.out.count("\n  cure: ") == 5
    assert printed.out.rstrip().endswith("No build can run here yet: 4 errors.")


def test_no_variable_at_all_is_no_traceback(machine: Machine) -> None:
    machine.variables = {}
    assert doctor.exit_code(machine.findings()) == 3  # no nvcc
    assert not any("mistake of cudabuild" in one.problem for one in machine.findings())


def test_cuda_home_that_leads_nowhere_is_an_error_with_the_cure(machine: Machine) -> None:
    machine.variables["CUDA_HOME"] = "/nowhere"
    error = only(machine.findings("nvcc"), "nvcc")
    assert (error.severity, error.problem) == ("error", "CUDA_HOME is '/nowhere', which does not exist")
    assert "unset it" in error.cure


def test_nvcc_whose_path_would_be_run_as_a_command_is_not_asked(machine: Machine) -> None:
    other = FakeToolkit(machine.root / "$(touch PWNED)/cuda")
    machine.variables |= {"CUDA_HOME": str(other.root), "FAKE_NVCC_LOG": str(machine.root / "nvcc.log")}
    problems = [finding.problem for finding in machine.findings()]
    assert [problem for problem in problems if "PWNED" in problem and "shell" in problem], problems
    assert not list(machine.root.rglob("PWNED"))
    assert not (machine.root / "nvcc.log").exists()


def test_another_nvcc_is_listed_with_why_it_is_not_used_and_a_disagreement_is_a_warning(machine: Machine) -> None:
    other = FakeToolkit(machine.root / "cuda-12.4", "12.4.131")
    machine.variables["PATH"] = f"{other.root}/bin:{machine.variables['PATH']}"
    machine.variables["CUDA_HOME"] = str(machine.toolkit.root)
    findings = machine.findings("nvcc")
    assert only(findings, "nvcc").found.startswith("13.0.88")
    assert only(findings, "nvcc-other").found == f"{other.nvcc} (from PATH): CUDA_HOME comes first"
    assert "PATH leads to another one" in only(findings, "nvcc-choice").problem
    assert doctor.exit_code(findings) == 0


def test_cicc_newer_than_ptxas_cannot_build_and_older_parts_are_a_warning(machine: Machine) -> None:
    machine.versions(cicc="13.5.37", ptxas="13.0.88")
    findings = machine.findings()
    error = only(findings, "toolkit-releases")
    assert error.severity == "error"
    assert "cicc 13.5.37, ptxas 13.0.88" in error.problem
    assert doctor.exit_code(findings) == 3
    assert not any(one.id == "trial-compile" for one in findings)  # one cause, one error
    machine.versions(cicc="13.0.88", ptxas="13.5.37")
    assert machine.worst() == {"toolkit-releases": "warning"}


def test_parts_of_one_release_may_differ_in_their_last_number(machine: Machine) -> None:
    machine.versions(cicc="13.0.88", ptxas="13.0.99")
    assert machine.worst() == {}


def test_headers_of_another_release_are_a_warning(machine: Machine) -> None:
    machine.versions(cicc="13.0.88", ptxas="13.0.88")
    machine.toolkit.put("include/cuda_runtime_api.h", "#define CUDART_VERSION  12040\n")
    assert machine.worst(*TOOLKIT) == {"toolkit-releases": "warning"}
    assert "headers 12.4" in only(machine.findings(*TOOLKIT), "toolkit-releases").problem


def test_wheels_of_two_releases_are_cured_by_naming_the_release(machine: Machine) -> None:
    wheels = FakeToolkit(machine.root / "site/nvidia/cu13", library_folder="lib")
    machine.toolkit = wheels
    machine.versions(cicc="13.5.37", ptxas="13.0.88")
    machine.variables["NVCC"] = str(wheels.nvcc)
    assert "'nvidia-nvvm==13.0.*'" in only(machine.findings(*TOOLKIT), "toolkit-releases").cure


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("nvvm/bin/cicc", "cicc"), ("bin/ptxas", "ptxas"), ("nvvm/libdevice/libdevice.10.bc", "libdevice.10.bc"),
        ("include/crt/host_config.h", "crt/host_config.h"),
    ],
)  # fmt: skip
def test_a_missing_part_is_named(machine: Machine, file: str, name: str) -> None:
    (machine.toolkit.root / file).unlink()
    error = only(machine.findings(*TOOLKIT), "toolkit-parts")
    assert (error.severity, error.problem) == ("error", f"missing: {name}")


def test_a_missing_runtime_is_an_error_only_for_the_kind_that_is_linked(machine: Machine, crate: Workspace) -> None:
    (machine.toolkit.libraries / "libcudart_static.a").unlink()
    assert machine.worst("crate", *TOOLKIT) == {"cudart": "error"}
    crate.config(cudart="shared")
    assert machine.worst("crate", *TOOLKIT) == {}


def test_a_host_compiler_that_is_too_new_is_an_error_with_its_version(machine: Machine) -> None:
    machine.toolkit.put("include/crt/host_config.h", GCC_REFUSED)
    error = only(machine.findings(*TOOLKIT), "host-compiler")
    assert error.severity == "error"
    assert "it takes g++ up to 4" in error.problem
    assert error.found.startswith("gcc ")
    assert "host-compiler" in error.cure


def test_a_kernel_that_does_not_compile_is_an_error_in_the_compilers_words(machine: Machine) -> None:
    machine.toolkit.put("include/cuda_runtime.h", '#include "not_there.h"\n')
    error = only(machine.findings(*TOOLKIT), "trial-compile")
    assert error.severity == "error"
    assert "not_there.h: No such file" in error.problem


def test_an_nvcc_that_hangs_is_a_finding_and_leaves_no_process(machine: Machine) -> None:
    pid = machine.root / "pid"
    machine.toolkit.put("bin/nvcc", f"#!/bin/sh\nsleep 60 &\necho $! > {pid}\nwait\n", mode=0o755)
    started = time.monotonic()
    findings = machine.findings(patience=0.5)
    assert time.monotonic() - started < 10
    error = only(findings, "nvcc")
    assert error.severity == "error"
    assert "gave no answer in 0.5 s" in error.problem
    assert only(findings, "ar").severity == "ok"
    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_tool_that_fails_or_hangs_is_a_finding_with_its_own_words(machine: Machine) -> None:
    machine.tool("ninja", "echo broken library >&2; exit 127")
    machine.tool("cargo", "sleep 60")
    findings = machine.findings(patience=1)
    assert "exit code 127: broken library" in only(findings, "ninja").problem
    assert only(findings, "cargo").severity == "warning"
    assert "cargo: gave no answer in 1 s" in only(findings, "cargo").problem


def test_a_check_that_breaks_does_not_break_the_others(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.tool("cargo", "printf '\\377'")
    monkeypatch.setattr(doctor, "CHECKS", (doctor.Check("x", "x", lambda seen: iter([1 / 0])), *doctor.CHECKS))
    findings = machine.findings()
    assert "ZeroDivisionError" in only(findings, "x").problem
    assert only(findings, "ar").severity == "ok"


@pytest.mark.parametrize(("version", "severity"), [
    ("1.13.0.git.kitware.jobserver-pipe-1", "ok"), ("1.13.1", "warning"), ("1.11.1", "warning"),
])  # fmt: skip
def test_a_ninja_that_does_not_know_cargos_jobserver_is_a_warning(
    machine: Machine, version: str, severity: str
) -> None:
    machine.tool("ninja", f"echo {version}")
    assert only(machine.findings("ninja"), "ninja").severity == severity


def test_a_cargo_without_double_colons_is_a_warning(machine: Machine) -> None:
    machine.tool("cargo", "echo cargo 1.76.0")
    assert machine.worst("cargo") == {"cargo": "warning"}
    assert 'rust-version = "1.76"' in only(machine.findings("cargo"), "cargo").cure


@pytest.mark.parametrize(("cuda", "says"), [
    ("12.4", "programs built here do not start"), ("13.0", None), ("13.1", None), ("14.0", None),
])  # fmt: skip
def test_a_driver_that_is_older_than_the_toolkit_is_a_warning(machine: Machine, cuda: str, says: str | None) -> None:
    machine.gpu(cuda=cuda)
    problems = [one.problem for one in machine.findings("nvcc", "gpu") if one.id == "driver"]
    assert len(problems) == (says is not None)
    if says is not None:
        assert says in problems[0] and "13.0.88" in problems[0] and cuda in problems[0]


def test_a_driver_of_an_older_minor_version_may_not_load_ptx(machine: Machine) -> None:
    machine.toolkit.install_nvcc("13.5.37")
    machine.gpu(cuda="13.0")
    assert "may not load PTX" in only(machine.findings("nvcc", "gpu"), "driver").problem


def test_a_gpu_that_the_toolkit_does_not_know_is_a_warning(machine: Machine) -> None:
    machine.gpu("7.0")
    assert machine.worst("nvcc", "gpu") == {"gpu-arch": "warning"}


def test_a_driver_that_does_not_answer_is_a_warning_and_no_driver_is_none(machine: Machine) -> None:
    assert only(machine.findings("gpu"), "gpu").severity == "note"
    machine.tool("nvidia-smi", "echo Driver/library version mismatch; exit 18")
    assert machine.worst("gpu") == {"gpu": "warning"}
    assert "Driver/library version mismatch" in only(machine.findings("gpu"), "gpu").problem


def test_tmpdir_that_does_not_exist_is_one_error(machine: Machine) -> None:
    machine.variables["TMPDIR"] = "/nowhere"
    assert machine.worst() == {"tmpdir": "error"}
    assert "TMPDIR is '/nowhere', which does not exist" in only(machine.findings(), "tmpdir").problem


def test_variables_that_change_compiles_are_noted(machine: Machine) -> None:
    machine.variables |= {"NVCC_APPEND_FLAGS": "-lineinfo", "CPATH": "/a:", "DEPENDENCIES_OUTPUT": "deps"}
    findings = machine.findings("environment")
    notes = [one.found for one in findings if one.id == "environment"]
    assert any("NVCC_APPEND_FLAGS='-lineinfo'" in note for note in notes)
    assert any("DEPENDENCIES_OUTPUT" in note for note in notes)
    assert "empty element" in only(findings, "search-path").problem


def test_a_good_crate_has_nothing_wrong(machine: Machine, crate: Workspace) -> None:
    findings = machine.findings()
    assert [one for one in findings if one.problem] == []
    assert only(findings, "crate-sources").found == "1: kernels/msm.cu"
    assert only(findings, "crate-arch").found == "sm_80"
    assert {one.id for one in findings} >= {"crate-flags", "crate-build-script", "crate-output"}
    assert not (crate.crate / "target").exists()  # it looks and leaves nothing


@pytest.mark.parametrize(("settings", "id"), [
    ({"sorces": ["a.cu"]}, "crate"), ({"sources": ["nothing/*.cu"]}, "crate-sources"), ({"arch": ["50"]}, "crate-arch"),
    ({"flags": ["--no-such-flag"]}, "crate-flags"),
])  # fmt: skip
def test_a_wrong_configuration_is_exit_code_2(
    machine: Machine, crate: Workspace, settings: dict[str, object], id: str
) -> None:
    crate.config(**settings)
    findings = machine.findings()
    assert [one.id for one in findings if one.severity == "error"] == [id]
    assert doctor.exit_code(findings) == 2


def test_the_crates_own_toolkit_is_looked_at(machine: Machine, crate: Workspace) -> None:
    other = FakeToolkit(machine.root / "cuda-12.4", "12.4.131")
    crate.config(toolkit=str(other.root))
    assert (
        only(machine.findings("crate", "nvcc"), "nvcc").found == f"12.4.131, {other.nvcc} (from the `toolkit` setting)"
    )


def test_a_build_script_that_does_not_call_cudabuild_is_a_warning(machine: Machine, crate: Workspace) -> None:
    crate.write("build.rs", "fn main() {}\n")
    assert machine.worst("crate", "crate-build-script") == {"crate-build-script": "warning"}
    crate.remove("build.rs")
    assert machine.worst("crate", "crate-build-script") == {"crate-build-script": "warning"}


def test_what_only_cargo_knows_is_not_held_against_the_crate(machine: Machine, crate: Workspace) -> None:
    crate.config(sources=None, arch=None, include=["${DEP_BLST_C_SRC}/include"])
    crate.write("build.rs", 'fn main() { cudabuild().arg("--source").arg(unit).arg("--arch").arg(gpu) }\n')
    assert machine.worst() == {}


def test_an_include_folder_that_is_not_there_is_a_warning(machine: Machine, crate: Workspace) -> None:
    crate.config(include=["kernels/inclde"])
    assert machine.worst("crate", "crate-sources") == {"crate-include": "warning"}


@pytest.mark.parametrize(("arch", "gpu", "fits"), [
    ("80", "8.6", True), ("86", "8.0", False), ("80", "9.0", False), ("compute_80", "9.0", True), ("90a", "9.0", True),
    ("90a", "10.0", False), ("compute_90a", "10.0", False), ("100a", "10.3", False),
    ("100f", "10.3", True), ("100f", "12.0", False),
])  # fmt: skip
def test_archs_that_do_not_run_on_this_gpu_are_a_warning(
    machine: Machine, crate: Workspace, arch: str, gpu: str, fits: bool
) -> None:
    machine.gpu(gpu)
    crate.config(arch=[arch])
    assert machine.worst("crate", "nvcc", "crate-arch") == ({} if fits else {"crate-arch-gpu": "warning"})


def test_native_is_found_as_a_build_finds_it_without_nvidia_smi(machine: Machine, crate: Workspace) -> None:
    crate.config(arch=["native"])
    assert machine.worst("crate", "nvcc", "crate-arch") == {"crate-arch": "error"}
    machine.toolkit.put("bin/__nvcc_device_query", "#!/bin/sh\necho 90\n", mode=0o755)
    assert only(machine.findings("crate", "nvcc", "crate-arch"), "crate-arch").found == "sm_90"


def test_a_crate_that_does_not_use_cudabuild_and_a_workspace_are_notes(machine: Machine, crate: Workspace) -> None:
    crate.remove("cudabuild.toml")
    assert "cudabuild init" in only(machine.findings("crate"), "crate").found
    crate.write("Cargo.toml", '[workspace]\nmembers = ["a"]\n')
    note = only(machine.findings("crate"), "crate")
    assert note.severity == "note" and "is a workspace" in note.found


def test_the_json_is_stable_and_complete(
    machine: Machine, crate: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(crate.crate)
    crate.config(arch=["50"])
    texts = []
    for _ in range(2):
        assert __main__.main(["doctor", "--json"], Environment(machine.variables)) == 2
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    document = json.loads(texts[0])
    assert (document["schema"], document["exit_code"]) == (1, 2)
    assert all(list(one) == ["id", "severity", "subject", "found", "problem", "cure"] for one in document["findings"])
    assert [one["id"] for one in document["findings"] if one["severity"] == "error"] == ["crate-arch"]


def test_a_path_that_is_not_utf_8_is_still_json() -> None:
    text = report.encode([Finding("nvcc", "ok", "nvcc", os.fsdecode(b"/opt/\xff/nvcc"))], 0)
    assert json.loads(text)["findings"][0]["found"] == "/opt/\\udcff/nvcc"


def test_the_text_has_a_line_a_subject_then_errors_before_warnings_each_with_its_cure() -> None:
    findings = [
        Finding("a", "ok", "nvcc", "13.0"),
        Finding("b", "warning", "ninja", "1.11", "it is old", "get another"),
        Finding("c", "error", "ar", "", "ar is not on PATH\nreally", "install it"),
        Finding("d", "note", "nvcc", "also 12.4"),
    ]
    assert [text for _, text in report.lines(findings, 3)] == [
        "--  nvcc   13.0",
        "           also 12.4",
        "!   ninja  1.11",
        "!!  ar     see below",
        "",
        "error: ar is not on PATH\n  really",
        "  cure: install it",
        "",
        "warning: it is old",
        "  cure: get another",
        "",
        "No build can run here yet: 1 error.",
    ]
