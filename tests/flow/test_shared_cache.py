"""This module checks builds that share one cache: what is served, what is not, and that what is served is right."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
from toolkit import FakeToolkit
from workspace import Report, Workspace

from cudabuild.cache.shared import SharedCache

ALL = ["kernels/hash.cu", "kernels/msm.cu", "kernels/ntt.cu"]


@pytest.fixture
def shared(prover: Workspace) -> Workspace:
    """Built once, with a cache."""
    prover.use_cache()
    prover.build()
    assert prover.compiles() == ALL
    return prover


def wipe(crate: Workspace) -> None:
    shutil.rmtree(crate.out)


def checkout(crate: Workspace, name: str = "other/checkout") -> Workspace:
    """A copy of the crate, with an output folder of its own."""
    other = copy.copy(crate)
    other.crate, other.out = crate.root / name, crate.root / f"out-of-{name.replace('/', '-')}"
    other.settings = dict(crate.settings)
    shutil.copytree(crate.crate, other.crate, symlinks=True)
    return other


def stored(crate: Workspace, room: str = "entries") -> list[Path]:
    place = crate.root / "cache/v1" / room
    return sorted(path for path in (place, *place.rglob("*")) if path.is_file())


# What is served


def test_warm_build_into_an_empty_folder_starts_no_compiler_and_no_ninja(shared: Workspace) -> None:
    first = shared.archive_members()
    wipe(shared)
    report = shared.build(env={"PATH": f"{shared.toolkit.root}/bin:{shared.system_path}"})
    assert not shared.log.exists(), "nvcc was started, if only to be asked"
    assert [path.name for path in (shared.out / "cudabuild").glob("run-*")] == []
    assert report.restored == ALL
    assert shared.archive_members() == first
    assert shared.build().kept == ALL


def test_copy_of_the_crate_compiles_nothing(shared: Workspace) -> None:
    """C04"""
    other = checkout(shared)
    assert other.build().restored == ALL
    assert other.compiles() == []
    assert other.archive_members() == shared.archive_members()


def test_touch_of_everything_compiles_nothing(shared: Workspace) -> None:
    """C04"""
    wipe(shared)
    for path in shared.crate.rglob("*"):
        path.touch()
    assert shared.build().restored == ALL


def test_profiles_come_back_after_a_clean_and_the_output_says_from_where(prover: Workspace) -> None:
    """C05"""
    prover.use_cache()
    prover.config(profile={"dev": {"opt": 0}, "release": {"opt": 2}})
    release = {"PROFILE": "release", "OPT_LEVEL": "3", "DEBUG": "false"}
    made = []
    for env in ({}, release):
        prover.build_under_cargo(env=env)
        made.append(prover.archive_members())
        wipe(prover)
    assert len(prover.compiles()) == 6
    for env, members in zip(({}, release), made, strict=True):
        report = prover.build_under_cargo(env=env)
        assert any("restored all 3 units from the cache" in line for line in report.values("warning")), report.stdout
        assert prover.archive_members() == members
        wipe(prover)
    assert prover.compiles() == []


def test_lines_after_a_hit_are_those_of_the_first_build(prover: Workspace) -> None:
    """C12"""
    prover.use_cache()
    first = prover.build_under_cargo()
    wipe(prover)
    second = prover.build_under_cargo()
    assert second.restored == ALL
    kinds = {key for key, _ in first.directives} - {"warning"}
    assert [line for line in second.directives if line[0] in kinds] == [line for line in first.directives if line[0] in kinds]


def test_header_edit_after_a_hit_is_seen(shared: Workspace) -> None:
    """C12"""
    wipe(shared)
    shared.build()
    shared.edit_keeping_mtime("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    report = shared.build()
    assert shared.compiles() == ["kernels/msm.cu", "kernels/ntt.cu"]
    assert report.reason("kernels/msm.cu") == "kernels/include/limbs.cuh changed"
    assert "int msm[] = {1, 2};" in shared.archive_text()


def test_lines_of_a_second_checkout_name_its_own_files(prover: Workspace) -> None:
    """C12"""
    prover.use_cache()
    prover.build_under_cargo()
    other = checkout(prover)
    report = other.build_under_cargo()
    assert report.restored == ALL
    assert str(prover.crate) not in report.stdout and str(prover.out) not in report.stdout.replace(str(other.out), "")
    assert str(other.path("kernels/include/limbs.cuh")) in report.watched
    other.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    assert other.build().compiled == ["kernels/msm.cu", "kernels/ntt.cu"]
    assert prover.build().kept == ALL


def test_architecture_and_back_compiles_each_once(shared: Workspace) -> None:
    """C13"""
    first = shared.archive_members()
    shared.config(arch=["90"])
    shared.build()
    assert shared.compiles() == ALL
    assert set(shared.archive_members().values()).isdisjoint(first.values())
    shared.config(arch=["80"])
    assert shared.build().restored == ALL
    assert shared.compiles() == []
    assert shared.archive_members() == first


def test_order_of_architectures_and_the_hash_seed_do_not_matter(shared: Workspace) -> None:
    """C13"""
    shared.config(arch=["80", "90"])
    shared.build(env={"PYTHONHASHSEED": "0"})
    shared.compiles()
    shared.forked = False
    for seed, archs in (("1", ["90", "80"]), ("2", ["80", "90"])):
        wipe(shared)
        shared.config(arch=archs)
        assert shared.build(env={"PYTHONHASHSEED": seed}).restored == ALL


def test_toolkit_behind_a_link_is_the_one_that_it_leads_to(prover: Workspace) -> None:
    """C15"""
    prover.use_cache()
    other, link = FakeToolkit(prover.root / "cuda-13.1", version="13.1.5"), prover.root / "cuda"
    link.symlink_to(prover.toolkit.root)
    prover.build(env={"CUDA_HOME": str(link)})
    first = prover.archive_members()
    assert prover.compiles() == ALL
    wipe(prover)
    assert prover.build(env={"CUDA_HOME": str(prover.toolkit.root)}).restored == ALL, "one toolkit, two names"
    link.unlink()
    link.symlink_to(other.root)
    prover.build(env={"CUDA_HOME": str(link)})
    assert prover.compiles() == ALL
    assert "13.1.5" in prover.archive_text()
    other.put("nvvm/bin/cicc", "#!/bin/sh\n# patched\n", mode=0o755)
    prover.build(env={"CUDA_HOME": str(link)})
    assert prover.compiles() == ALL
    shutil.rmtree(prover.toolkit.root)
    wipe(prover)
    report = prover.build_under_cargo(env={"CUDA_HOME": str(other.root), "PATH": prover.system_path})
    assert report.restored == ALL
    assert str(prover.toolkit.root) not in report.stdout
    assert prover.archive_members() != first


def test_wiped_builds_leave_as_many_entries_as_the_first(shared: Workspace) -> None:
    """C16"""
    rooms = ("entries", "readings", "probes", "tmp")
    before = {room: len(stored(shared, room)) for room in rooms}
    assert before == {"entries": 3, "readings": 3, "probes": 1, "tmp": 0}
    for _ in range(4):
        wipe(shared)
        shared.build()
    assert shared.compiles() == []
    assert {room: len(stored(shared, room)) for room in rooms} == before


def test_warnings_of_the_compiler_are_told_again(prover: Workspace) -> None:
    prover.use_cache()
    prover.write("kernels/hash.cu", "WARN unused variable\nint hash;\n")
    first = prover.build_under_cargo()
    wipe(prover)
    second = prover.build_under_cargo()
    assert second.restored == ALL
    warning = "kernels/hash.cu(1): warning #177-D: unused variable"
    assert warning in first.stderr and warning in second.stderr
    assert second.units["kernels/hash.cu"]["output"] == first.units["kernels/hash.cu"]["output"]


# Bound to a place


PLACES: list[tuple[dict[str, Any], dict[str, str], bool]] = [
    ({}, {}, True),
    ({"host_flags": ["-Wall"]}, {}, True),
    ({"lineinfo": True}, {}, False),
    ({"debug": True}, {}, False),
    ({"flags": ["-G"]}, {}, False),
    ({"flags": ["--generate-line-info"]}, {}, False),
    ({"host_flags": ["-g"]}, {}, False),
    ({}, {"NVCC_APPEND_FLAGS": "-lineinfo"}, False),
    ({}, {"NVCC_PREPEND_FLAGS": "-Xcompiler -g"}, False),
]


@pytest.mark.parametrize(("settings", "env", "is_shared"), PLACES, ids=str)
def test_object_that_names_its_folder_is_good_there_alone(
    prover: Workspace, settings: dict[str, Any], env: dict[str, str], is_shared: bool
) -> None:
    """C16"""
    prover.use_cache()
    prover.config(**settings)
    other = checkout(prover)
    prover.build(env=env)
    prover.compiles()
    other.build(env=env)
    assert other.compiles() == ([] if is_shared else ALL)
    assert str(prover.crate) + "\n" not in other.archive_text()
    for crate in (prover, other):
        wipe(crate)
        assert crate.build(env=env).restored == ALL, "in its own place it is served"


FILE = "#pragma once\nchar const* file = __FILE__;\n"


def test_generated_header_is_named_where_it_lies(prover: Workspace) -> None:
    prover.use_cache()
    prover.write("kernels/hash.cu", '#include "gen.cuh"\n')
    for out in (prover.root / "out-one", prover.root / "out-two"):
        (out / "gen").mkdir(parents=True)
        (out / "gen/gen.cuh").write_text(FILE)
        prover.config(include=["kernels/include", str(out / "gen")])
        prover.build(out=out)
        assert prover.compiles() == ALL
        assert f'"{out}/gen/gen.cuh"' in prover.archive_text(out)


def test_generated_source_is_named_where_it_lies(prover: Workspace) -> None:
    prover.use_cache()
    for out in (prover.root / "out-one", prover.root / "out-two"):
        out.mkdir()
        (out / "gen.cu").write_text(FILE)
        prover.config(sources=[str(out / "gen.cu")])
        prover.build(out=out)
        assert f'"{out}/gen.cu"' in prover.archive_text(out)


@pytest.mark.parametrize("way", ["flag", "flag in one word", "variable", "include"])
def test_file_named_in_full_is_the_one_that_is_meant(prover: Workspace, way: str) -> None:
    """Two checkouts, in both of which the words name the first one's folder."""
    prover.use_cache()
    full = prover.path("full")
    prover.write("full/full.cuh", FILE + "int full = 1;\n")
    prover.write("kernels/hash.cu", f'#include {"<full.cuh>" if way != "include" else f""" "{full}/full.cuh" """}\n')
    env = {"CPATH": str(full)} if way == "variable" else {}
    if way.startswith("flag"):
        prover.config(flags=[f"-I{full}"] if way == "flag" else [f"--include-path={full}"])
    other = checkout(prover)
    prover.build(env=env)
    other.build(env=env)
    assert f'"{full}/full.cuh"' in other.archive_text()
    prover.write("full/full.cuh", FILE + "int full = 2;\n")
    other.build(env=env)
    assert "int full = 2;" in other.archive_text()
    wipe(other)
    other.build(env=env)
    assert "int full = 2;" in other.archive_text()


def test_folder_named_in_full_is_the_one_where_a_header_must_not_appear(prover: Workspace) -> None:
    prover.use_cache()
    prover.write("late/late.cuh", "int late;\n")
    prover.write("full/unread.cuh", "")
    prover.write("kernels/hash.cu", "#include <late.cuh>\n")
    prover.config(system_include=["late"])
    env = {"CPATH": str(prover.path("full"))}
    other = checkout(prover)
    prover.build(env=env)
    other.build(env=env)
    prover.write("full/late.cuh", "int early;\n")
    other.build(env=env)
    assert "int early;" in other.archive_text()


@pytest.mark.parametrize("way", ["flag", "include"])
def test_file_that_each_checkout_names_in_full_is_its_own(prover: Workspace, way: str) -> None:
    prover.use_cache()
    prover.write("full/full.cuh", FILE)
    prover.write("kernels/hash.cu", '#include "full.cuh"\n')
    for crate in (prover, checkout(prover)):
        folder = str(crate.path("full"))
        crate.config(**({"flags": [f"-I{folder}"]} if way == "flag" else {"include": ["kernels/include", folder]}))
        crate.build()
        text = crate.archive_text()
        assert ('"full/full.cuh"' in text) if way == "include" else (f'"{folder}/full.cuh"' in text)


# What a restored object is


def test_restored_object_shares_nothing_with_the_cache(shared: Workspace) -> None:
    """C17"""
    first = shared.archive_members()
    for _ in range(2):
        wipe(shared)
        assert shared.build().restored == ALL
        for path in (shared.out / "cudabuild/obj").iterdir():
            assert path.stat().st_nlink == 1 and path.stat().st_mode & 0o600 == 0o600
            with path.open("ab") as file:
                file.write(b"x")
        assert shared.build().restored == ALL, "an object that was altered is not used"
        assert shared.archive_members() == first
    assert shared.compiles() == []


def test_value_there_and_back_again(shared: Workspace) -> None:
    """C17"""
    for old, new in ((7, 8), (8, 7), (7, 8)):
        shared.edit("kernels/hash.cu", f"hash = {old}", f"hash = {new}")
        shared.build()
        assert f"int hash = {new};" in shared.archive_text()
    assert shared.compiles() == ["kernels/hash.cu"]


def test_nothing_in_the_cache_can_be_written_by_others(shared: Workspace) -> None:
    """C17"""
    for path in (shared.root / "cache").rglob("*"):
        assert path.stat().st_mode & 0o022 == 0, path


def whole(report: Report) -> bool:
    return report.data["warnings"] == []


@pytest.mark.parametrize("room", ["entries", "readings", "probes", "digests"])
@pytest.mark.parametrize("how", ["empty", "half", "flip"])
def test_damaged_file_is_noticed_and_healed(shared: Workspace, room: str, how: str) -> None:
    """C18"""
    first = shared.archive_members()
    for path in stored(shared, room):
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes({"empty": b"", "half": data[:middle]}.get(how, data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]))
        wipe(shared)
        report = shared.build()
        lost = room in ("entries", "readings")
        assert len(report.compiled) == lost and len(shared.compiles()) == lost
        assert whole(report) == (room != "entries"), report.data["warnings"]
        assert shared.archive_members() == first
        wipe(shared)
        report = shared.build()
        assert report.restored == ALL and whole(report)


def test_compile_that_failed_leaves_nothing_in_the_cache(shared: Workspace) -> None:
    """C18"""
    before = stored(shared)
    shared.edit("kernels/hash.cu", "int hash", "SYNTAX_ERROR int hash")
    for _ in range(2):
        wipe(shared)
        assert shared.build(expect=1).failed == ["kernels/hash.cu"]
    shared.edit("kernels/hash.cu", "SYNTAX_ERROR ", "")
    wipe(shared)
    assert shared.build().restored == ALL
    assert stored(shared) == before


@pytest.mark.parametrize("fault", ["crash", "truncate", "empty-object", "no-object", "half-depfile", "empty-depfile"])
def test_faulty_compile_leaves_nothing_in_the_cache(prover: Workspace, fault: str) -> None:
    """C18"""
    prover.use_cache()
    prover.build(env={"FAKE_NVCC_FAULT": fault}, expect=1)
    assert stored(prover) == []
    prover.compiles()
    prover.build()
    assert prover.compiles() == ALL


def test_object_of_a_text_that_moved_is_not_stored(prover: Workspace) -> None:
    prover.use_cache()
    header = prover.path("kernels/include/limbs.cuh")
    prover.build(env={"FAKE_NVCC_FAULT": f"edit:{header}", "FAKE_NVCC_FAULT_SOURCE": "msm.cu", "CUDABUILD_JOBS": "1"}, expect=4)
    assert not any(b"source kernels/msm.cu" in path.read_bytes() for path in stored(prover))
    wipe(prover)
    prover.build()
    assert "int MEANWHILE;" in prover.archive_text()


def test_what_was_made_between_the_look_and_the_claim_is_served(shared: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    readings, away = shared.root / "cache/v1/readings", shared.root / "away"
    readings.rename(away)
    wipe(shared)
    claim = SharedCache.claim

    def claim_late(self: SharedCache, requests: Any) -> Any:
        away.rename(readings)
        return claim(self, requests)

    monkeypatch.setattr(SharedCache, "claim", claim_late)  # a forked run is of this process
    assert shared.build().restored == ALL


# Modes


def test_read_only_cache_serves_and_takes_nothing(shared: Workspace) -> None:
    files = {path: path.read_bytes() for path in stored(shared, "")}
    wipe(shared)
    shared.edit("kernels/hash.cu", "7", "8")
    report = shared.build("--cache=read-only")
    assert (report.compiled, report.restored) == (["kernels/hash.cu"], ["kernels/msm.cu", "kernels/ntt.cu"])
    assert {path: path.read_bytes() for path in stored(shared, "")} == files


def test_cache_that_is_off_serves_and_takes_nothing(shared: Workspace) -> None:
    shared.write("kernels/hash.cu", "int hash = 8;\n")
    files = stored(shared, "")
    wipe(shared)
    assert shared.build("--cache=off").compiled == ALL
    assert stored(shared, "") == files


# Absence, and what is not in the list of files


def test_time_of_the_compile_is_not_served(prover: Workspace) -> None:
    prover.use_cache()
    prover.write("kernels/hash.cu", "char const* built = __DATE__ __TIME__;\n")
    prover.build()
    first = prover.archive_text()
    assert prover.build().kept == ALL
    wipe(prover)
    report = prover.build()
    assert (report.compiled, report.restored) == (["kernels/hash.cu"], ["kernels/msm.cu", "kernels/ntt.cu"])
    assert prover.archive_text() != first


@pytest.mark.parametrize(("text", "is_served"), [("__DATE__ __TIME__", True), ("__TIMESTAMP__", False)])
def test_time_that_is_fixed_is_served(prover: Workspace, text: str, is_served: bool) -> None:
    prover.use_cache()
    prover.env["SOURCE_DATE_EPOCH"] = "1700000000"
    prover.write("kernels/hash.cu", f"char const* built = {text};\n")
    prover.build()
    wipe(prover)
    assert ("kernels/hash.cu" in prover.build().restored) == is_served


def test_toolkit_header_that_mentions_the_time_does_not_count(prover: Workspace) -> None:
    prover.use_cache()
    header = prover.toolkit.root / "include/crt/host_config.h"
    header.write_text(header.read_text() + "#define BUILT __DATE__\n")
    prover.build()
    wipe(prover)
    assert prover.build().restored == ALL


def there_and_back(crate: Workspace, source: str, there: Any, back: Any, texts: tuple[str, str]) -> None:
    """Built into empty folders: the first state, the other, the first again from the cache, the other too."""
    crate.build()
    assert texts[0] in crate.archive_text()
    crate.compiles()
    for change, text, compiled in ((there, texts[1], [source]), (back, texts[0], []), (there, texts[1], []), (back, texts[0], [])):
        change()
        wipe(crate)
        crate.build()
        assert text in crate.archive_text()
        assert crate.compiles() == compiled


def test_forced_header_is_read(prover: Workspace) -> None:
    prover.use_cache()
    prover.write("kernels/forced.cuh", "#define FORCED 1\n")
    prover.write("kernels/hash.cu", "int hash = FORCED;\n")
    prover.config(flags=["--pre-include=kernels/forced.cuh"], sources=["kernels/hash.cu"])
    there_and_back(
        prover, "kernels/hash.cu", lambda: prover.write("kernels/forced.cuh", "#define FORCED 2\n"),
        lambda: prover.write("kernels/forced.cuh", "#define FORCED 1\n"), ("int hash = 1;", "int hash = 2;"),
    )  # fmt: skip


def test_link_is_followed_to_where_it_leads_now(prover: Workspace) -> None:
    prover.use_cache()
    for version in (1, 2):
        prover.write(f"versions/{version}.cuh", f"#define V {version}\n")
    prover.symlink("kernels/include/link.cuh", "../../versions/1.cuh")
    prover.write("kernels/hash.cu", '#include "link.cuh"\nint hash = V;\n')
    there_and_back(
        prover, "kernels/hash.cu", lambda: prover.symlink("kernels/include/link.cuh", "../../versions/2.cuh"),
        lambda: prover.symlink("kernels/include/link.cuh", "../../versions/1.cuh"), ("int hash = 1;", "int hash = 2;"),
    )  # fmt: skip


def test_linked_folder_is_followed_to_where_it_leads_now(prover: Workspace) -> None:
    prover.use_cache()
    for version in (1, 2):
        prover.write(f"versions/{version}/v.cuh", f"#define V {version}\n")
    prover.symlink("kernels/include/link", "../../versions/1")
    prover.write("kernels/hash.cu", '#include "link/v.cuh"\nint hash = V;\n')
    there_and_back(
        prover, "kernels/hash.cu", lambda: prover.symlink("kernels/include/link", "../../versions/2"),
        lambda: prover.symlink("kernels/include/link", "../../versions/1"), ("int hash = 1;", "int hash = 2;"),
    )  # fmt: skip


def test_header_that_is_only_asked_for_counts(prover: Workspace) -> None:
    prover.use_cache()
    prover.write("kernels/hash.cu", '#if __has_include("opt.cuh")\nint with;\n#else\nint without;\n#endif\n')
    there_and_back(
        prover, "kernels/hash.cu", lambda: prover.write("kernels/include/opt.cuh", ""),
        lambda: prover.remove("kernels/include/opt.cuh"), ("int without;", "int with;"),
    )  # fmt: skip


def test_header_that_shadows_another_counts(prover: Workspace) -> None:
    prover.use_cache()
    prover.remove("kernels/ntt.cu")
    there_and_back(
        prover, "kernels/msm.cu", lambda: prover.write("kernels/field.cuh", "#define FIELD 3\n#define LIMBS 3\n"),
        lambda: prover.remove("kernels/field.cuh"), ("int msm[] = {1, 1};", "int msm[] = {3, 3};"),
    )  # fmt: skip


def test_computed_include_is_read(prover: Workspace) -> None:
    prover.use_cache()
    prover.write("kernels/include/name.cuh", '#define NAME "one.cuh"\n')
    for name in ("one", "two"):
        prover.write(f"kernels/include/{name}.cuh", f"int {name};\n")
    prover.write("kernels/hash.cu", '#include "name.cuh"\n#include NAME\n')
    there_and_back(
        prover, "kernels/hash.cu", lambda: prover.write("kernels/include/name.cuh", '#define NAME "two.cuh"\n'),
        lambda: prover.write("kernels/include/name.cuh", '#define NAME "one.cuh"\n'), ("int one;", "int two;"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "setting",
    [{"flags": ["--options-file=more"]}, {"flags": ["-Xcompiler=@more"]}, {"flags": ["-Xptxas", "-optf,more"]}, {"host_flags": ["@more"]}],
    ids=str,
)
def test_file_of_more_flags_is_refused(prover: Workspace, setting: dict[str, Any]) -> None:
    """What it says would decide, and nothing would notice when it says something else."""
    prover.write("more", "-DX\n")
    prover.config(**setting)
    assert "more" in prover.build(expect=2).error


@pytest.mark.parametrize("value", ["-optf more", "-Xcompiler @more", "-Xcompiler -Wall,@more"])
def test_file_of_more_flags_in_a_variable_is_refused(prover: Workspace, value: str) -> None:
    prover.write("more", "-DX\n")
    assert "NVCC_APPEND_FLAGS" in prover.build(env={"NVCC_APPEND_FLAGS": value}, expect=2).error
