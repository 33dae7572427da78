from __future__ import annotations

import os
from pathlib import Path

import pytest

from cudabuild.config.load import load
from cudabuild.config.schema import BuildConfig, Overrides
from cudabuild.errors import ConfigError
from cudabuild.host import Environment

CARGO = '[package]\nname = "gpu-prover"\nversion.workspace = true\n'
BASE = 'sources = ["kernels/*.cu"]\narch = ["80"]\n'


class Crate:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = Environment({})
        (root / "Cargo.toml").write_text(CARGO)

    def config(self, text: str, **variables: str) -> BuildConfig:
        (self.root / "cudabuild.toml").write_text(text)
        return self.load(None, **variables)

    def load(self, overrides: Overrides | None = None, /, **variables: str) -> BuildConfig:
        self.env = Environment(variables)
        return load(str(self.root), self.env, overrides or Overrides())

    def error(self, text: str, **variables: str) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.config(text, **variables)
        return checked(caught.value)


def checked(error: ConfigError) -> ConfigError:
    assert error.exit_code == 2
    assert error.hint
    return error


@pytest.fixture
def crate(tmp_path: Path) -> Crate:
    return Crate(tmp_path)


# Finding the configuration


def test_defaults(crate: Crate) -> None:
    assert crate.config(BASE) == BuildConfig(
        name="gpu_prover_cuda", crate_root=str(crate.root), config_file=str(crate.root / "cudabuild.toml"),
        sources=("kernels/*.cu",), arch=("80",),
    )  # fmt: skip


def test_every_field_is_taken(crate: Crate) -> None:
    config = crate.config(
        'name = "k-1.2"\nkind = "staticlib"\nrdc = false\nsources = ["a.cu"]\ninclude = ["i"]\nsystem-include = ["s"]\n'
        'define = ["A", "B=1"]\narch = [80, "90a"]\nstd = "c++20"\nopt = 0\ndebug = true\nlineinfo = true\n'
        'cudart = "none"\n'
        'flags = ["-G"]\nhost-flags = ["-Wall"]\nlink = ["nccl", "dylib=rt", "static:+whole-archive=z"]\n'
        'toolkit = "/opt/cuda"\n'
        'host-compiler = "g++-12"\njobs = 3\nlog = "verbose"\n'
    )
    assert config == BuildConfig(
        name="k-1.2", crate_root=str(crate.root), config_file=str(crate.root / "cudabuild.toml"), sources=("a.cu",),
        include=("i",), system_include=("s",), define=("A", "B=1"), arch=("80", "90a"), std="c++20", opt=0, debug=True,
        lineinfo=True, cudart="none", flags=("-G",), host_flags=("-Wall",),
        link=("nccl", "dylib=rt", "static:+whole-archive=z"),
        toolkit="/opt/cuda", host_compiler="g++-12", jobs=3, log="verbose",
    )  # fmt: skip


def test_the_configuration_may_be_in_cargo_toml(crate: Crate) -> None:
    (crate.root / "Cargo.toml").write_text(CARGO + "[package.metadata.cudabuild]\n" + BASE)
    config = crate.load()
    assert config.config_file == str(crate.root / "Cargo.toml")
    assert config.sources == ("kernels/*.cu",)
    with pytest.raises(ConfigError, match="both .*cudabuild.toml and .*Cargo.toml"):
        crate.config(BASE)
    (crate.root / "Cargo.toml").write_text(CARGO + "[package.metadata.cudabuild]\nopt = 9\n")
    (crate.root / "cudabuild.toml").unlink()
    with pytest.raises(ConfigError, match="Cargo.toml: package.metadata.cudabuild.opt = 9"):
        crate.load()


def test_without_a_configuration_init_is_named(crate: Crate) -> None:
    for overrides in (Overrides(), Overrides(source=("k.cu",)), Overrides(arch=("80",))):
        with pytest.raises(ConfigError) as caught:
            crate.load(overrides)
        assert "cudabuild init" in checked(caught.value).hint


def test_sources_and_archs_from_the_command_line_need_no_configuration(crate: Crate) -> None:
    config = crate.load(Overrides(source=("k.cu",), arch=("90",)))
    assert (config.sources, config.arch, config.config_file) == (("k.cu",), ("90",), str(crate.root / "Cargo.toml"))


def test_the_name_is_the_packages(crate: Crate) -> None:
    assert crate.config(BASE, CARGO_PKG_NAME="other-one").name == "other_one_cuda"
    (crate.root / "Cargo.toml").unlink()
    error = crate.error(BASE)
    assert "name" in error.message
    assert crate.config(BASE + 'name = "x"').name == "x"


def test_a_workspace_without_a_package_is_no_crate(crate: Crate) -> None:
    (crate.root / "Cargo.toml").write_text('[workspace]\nmembers = ["a"]\n')
    error = crate.error(BASE)
    assert "Cargo.toml" in error.message and "[package]" in error.message and "--manifest-dir" in error.hint


@pytest.mark.parametrize("name", ["cudabuild.toml", "Cargo.toml"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'x = "\xff"', ["UTF-8", "line 1"]),
        (b"a = 1\n\nb = \xc3(", ["UTF-8", "line 3"]),
        (b"a = 1\nb =\n", ["TOML", "line 2"]),
    ],
)
def test_unreadable_text_names_file_and_line(crate: Crate, name: str, content: bytes, words: list[str]) -> None:
    (crate.root / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        crate.load()
    assert all(word in checked(caught.value).message for word in [str(crate.root / name), *words])


def test_a_byte_order_mark_is_nothing(crate: Crate) -> None:
    (crate.root / "cudabuild.toml").write_text("\ufeff" + BASE)
    assert crate.load().arch == ("80",)


def test_what_is_no_file_is_named(crate: Crate) -> None:
    own = crate.root / "cudabuild.toml"
    own.symlink_to("gone.toml")
    with pytest.raises(ConfigError, match="cudabuild.toml: a symlink to nothing"):
        crate.load()
    own.unlink()
    own.mkdir()
    with pytest.raises(ConfigError, match="cudabuild.toml cannot be read: Is a directory"):
        crate.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_named(crate: Crate) -> None:
    (crate.root / "cudabuild.toml").touch(mode=0)
    with pytest.raises(ConfigError, match="cudabuild.toml cannot be read: Permission denied"):
        crate.load()


# Keys and values


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ('source = ["x.cu"]', ["source", "unknown key"], "`sources`"),
        ('system_include = ["x"]', ["system_include"], "`system-include`"),
        ('archs = ["80"]', ["archs"], "`arch`"),
        ("zzzzzz = 1", ["zzzzzz"], "known keys: name"),
        ("[profile.dev]\nsorces = []", ["profile.dev.sorces"], "`sources`"),
        ("[profile.dev.features]", ["profile.dev.features", "unknown key"], "known keys"),
        ("rdc = true", ["rdc", "later release"], "remove"),
        ("[cache]\nsize = 1", ["cache.size = 1", "a string"], "10 GB"),
        ('[cache]\nsize = "10"', ["cache.size", '"10"', "a unit"], "10 GB"),
        ('[cache]\nmode = "on"', ["cache.mode", '"on"', "read-only"], "read-write"),
        ("[cache]\nfolder = 1", ["cache.folder", "unknown key"], "did you mean"),
        ("cache = true", ["cache", "not a table"], "[cache]"),
        ('jit = "keep"', ["jit", "later release"], "remove"),
        ("steps = true", ["steps", "later release"], "remove"),
        ('memory-per-job = "2G"', ["memory-per-job", "later release"], "remove"),
        ('kind = "ptx"', ["kind", '"ptx"', "later release"], "staticlib"),
        ('kind = "dylib"', ["kind", '"dylib"', "staticlib"], "staticlib"),
        ('name = ""', ["name", "empty"], "prover_kernels"),
        ('name = "a/b"', ["name", '"a/b"', "letters"], "prover_kernels"),
        ('name = "-a"', ["name", '"-a"'], "prover_kernels"),
        ("name = 3", ["name = 3", "a string"], "prover_kernels"),
        ('sources = "k.cu"', ["sources", '"k.cu"', "list of strings"], '["kernels/*.cu"]'),
        ('sources = ["k.cu", ""]', ["sources", "empty"], '["kernels/*.cu"]'),
        ('sources = ["k.cu", 1]', ["sources", '["k.cu",1]', "list of strings"], "kernels"),
        ('include = ["  "]', ["include", "empty"], "kernels/include"),
        ('include = ["a\\nb"]', ["include", "control character"], "kernels/include"),
        ('define = ["1X"]', ["define", '"1X"', "identifier"], "LIMBS=12"),
        ('define = ["A B=1"]', ["define", '"A B=1"'], "LIMBS=12"),
        ('define = ["=1"]', ["define", '"=1"'], "LIMBS=12"),
        ("define = {X = 1}", ["define", "list of strings"], "LIMBS=12"),
        ("arch = 8.0", ["arch", "8.0", "list of strings"], "80"),
        ("arch = [true]", ["arch", "true"], "80"),
        ('arch = [""]', ["arch", "empty"], "80"),
        ('std = "20"', ["std", '"20"'], "c++17"),
        ("opt = 4", ["opt = 4", "from 0 to 3"], "opt = 3"),
        ("opt = -1", ["opt = -1"], "opt = 3"),
        ('opt = "3"', ["opt", "whole number"], "opt = 3"),
        ("opt = true", ["opt = true", "whole number"], "opt = 3"),
        ("debug = 1", ["debug = 1", "true or false"], "debug = true"),
        ('cudart = "dynamic"', ["cudart", '"dynamic"', '"static" or "shared" or "none"'], "static"),
        ('link = ["a=b=c"]', ["link", '"a=b=c"'], "nccl"),
        ("jobs = 0", ["jobs = 0", "at least 1"], "jobs = 4"),
        ('log = "loud"', ["log", '"loud"'], "summary"),
        ("log = 2024-01-01", ["log", "2024-01-01"], "summary"),
        ("features = 1", ["features", "table"], "[features.NAME]"),
        ("profile = {dev = 1}", ["profile.dev", "table"], "[profile.dev]"),
        ("[profile.debug]", ["profile.debug"], "`dev`"),
        ("[profile.bench]", ["profile.bench"], "`release`"),
        ("[features.cud]", ["features.cud", "no feature"], "cud = []"),
    ],
)
def test_mistakes_name_file_key_value_and_cure(crate: Crate, text: str, words: list[str], hint: str) -> None:
    error = crate.error(text)
    assert str(crate.root / "cudabuild.toml") in error.message
    assert [word for word in words if word not in error.message] == [], error.message
    assert hint in error.hint


@pytest.mark.parametrize("arch", ['"native"', "80", '["native"]', "[80, 90]", '["90a", 80]'])
def test_archs_are_words_or_numbers(crate: Crate, arch: str) -> None:
    expected = tuple(word.strip() for word in arch.strip("[]").replace('"', "").split(","))
    assert crate.config(f'sources = ["k.cu"]\narch = {arch}').arch == expected


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [('arch = ["80"]', "sources", "--source"), ('sources = ["k.cu"]', "arch", "all-major"),
     (BASE + "[x]", "x", "known keys"),
     ('sources = []\narch = ["80"]', "sources", "--source"), ('sources = ["k.cu"]\narch = []', "arch", "compute_80")],
)  # fmt: skip
def test_sources_and_arch_are_needed(crate: Crate, text: str, key: str, hint: str) -> None:
    error = crate.error(text)
    assert key in error.message and hint in error.hint


# Features and profiles

LAYERS = (
    BASE
    + 'opt = 1\ndefine = ["BASE"]\n[features.zk-v2]\ndefine = ["ZK"]\nopt = 2\n'
    + '[features.bls]\ndefine = ["BLS"]\nopt = 3\n'
    + '[profile.release]\ndefine = ["RELEASE"]\nopt = 0\n[profile.dev]\ndefine = ["DEV"]\n'
    + '[profile.release-lto]\ndefine = ["LTO"]\n'
)
FEATURES = '[features]\nzk-v2 = []\n[target."cfg(unix)".dependencies]\nbls = {version = "1", optional = true}\n'


@pytest.mark.parametrize(
    ("variables", "define", "opt"),
    [
        ({}, "BASE DEV", 1),
        ({"PROFILE": "release"}, "BASE RELEASE", 0),
        ({"PROFILE": "debug"}, "BASE DEV", 1),
        ({"CARGO_FEATURE_ZK_V2": "1", "PROFILE": "custom"}, "BASE ZK", 2),
        ({"CARGO_FEATURE_ZK_V2": "", "CARGO_FEATURE_BLS": "1", "PROFILE": "custom"}, "BASE BLS ZK", 2),
        ({"CARGO_FEATURE_BLS": "1", "PROFILE": "release"}, "BASE BLS RELEASE", 0),
        ({"OUT_DIR": "/w/target/release-lto/build/p-0123/out", "PROFILE": "release"}, "BASE LTO", 1),
        ({"OUT_DIR": "/w/target/x86_64-unknown-linux-gnu/debug/build/p-0123/out", "PROFILE": "release"}, "BASE DEV", 1),
        ({"OUT_DIR": "/somewhere/else", "PROFILE": "release"}, "BASE RELEASE", 0),
    ],
)
def test_tables_add_up_in_order_and_single_values_replace(
    crate: Crate, variables: dict[str, str], define: str, opt: int
) -> None:
    (crate.root / "Cargo.toml").write_text(CARGO + FEATURES)
    config = crate.config(LAYERS, **variables)
    assert (" ".join(config.define), config.opt) == (define, opt)


def test_features_and_profile_may_be_assumed_by_hand(crate: Crate) -> None:
    (crate.root / "Cargo.toml").write_text(CARGO + FEATURES)
    (crate.root / "cudabuild.toml").write_text(LAYERS)
    config = crate.load(Overrides(feature=("zk-v2",), profile="release", define=("CLI",)))
    assert config.define == ("BASE", "ZK", "RELEASE", "CLI")
    with pytest.raises(ConfigError, match="--feature: .*`zk-v3`") as caught:
        crate.load(Overrides(feature=("zk-v3",)))
    assert "`zk-v2`" in checked(caught.value).hint
    with pytest.raises(ConfigError, match="--profile"):
        crate.load(Overrides(profile="debug"))


def test_mistakes_in_inactive_tables_are_found_too(crate: Crate) -> None:
    (crate.root / "Cargo.toml").write_text(CARGO + FEATURES)
    assert "features.bls.opt" in crate.error(BASE + "[features.bls]\nopt = 7").message
    assert "features.bls.defin" in crate.error(BASE + "[features.bls]\ndefin = []").message
    error = crate.error(BASE + "[features.bl]\nopt = 1")
    assert "features.bl" in error.message and "`bls`" in error.hint


# Variables


def test_variables_are_replaced_and_announced(crate: Crate) -> None:
    config = crate.config(
        BASE + 'include = ["${DEP_BLST_C_SRC}/x", "$${A}$b"]\nstd = "${STD}"\ndefine = ["V=${VALUE}"]',
        DEP_BLST_C_SRC="/b l", STD="c++20", VALUE="${NOT_AGAIN}",
    )  # fmt: skip
    assert (config.include, config.std, config.define) == (("/b l/x", "${A}$b"), "c++20", ("V=${NOT_AGAIN}",))
    assert {"DEP_BLST_C_SRC", "STD", "VALUE"} <= crate.env.names_read
    assert "A" not in crate.env.names_read


def test_an_unset_variable_names_key_and_variable(crate: Crate) -> None:
    error = crate.error(BASE + 'toolkit = "${MY_CUDA}/x"')
    assert "toolkit" in error.message and "MY_CUDA is not set" in error.message
    assert "MY_CUDA" in crate.env.names_read
    error = crate.error(BASE + 'include = ["${DEP_SPPARK_ROOT}"]')
    assert "DEP_SPPARK_ROOT" in error.message and "links" in error.hint and "directly" in error.hint


@pytest.mark.parametrize("value", ["${", "${}", "${A", "${A-b}", "x${1}"])
def test_a_reference_that_names_nothing_is_an_error(crate: Crate, value: str) -> None:
    error = crate.error(BASE + f'include = ["{value}"]', A="a")
    assert "include" in error.message and value in error.message


def test_values_are_judged_after_replacement(crate: Crate) -> None:
    assert "empty" in crate.error(BASE + 'include = ["${E}"]', E="").message
    assert "control character" in crate.error(BASE + 'include = ["${E}"]', E="a\nb").message
    assert "cudart" in crate.error(BASE + 'cudart = "${E}"', E="x").message


def test_inactive_tables_may_name_variables_that_are_not_set(crate: Crate) -> None:
    (crate.root / "Cargo.toml").write_text(CARGO + FEATURES)
    text = BASE + '[features.bls]\ninclude = ["${DEP_BLST_C_SRC}"]\nstd = "${STD}"\n'
    assert crate.config(text).include == ()
    assert not {"DEP_BLST_C_SRC", "STD"} & crate.env.names_read
    assert "DEP_BLST_C_SRC" in crate.error(text, CARGO_FEATURE_BLS="1").message


def test_cargos_own_variables_are_not_announced(crate: Crate) -> None:
    (crate.root / "Cargo.toml").write_text(CARGO + FEATURES)
    crate.config(LAYERS, CARGO_FEATURE_BLS="1", CARGO_PKG_NAME="x", OUT_DIR="/t/debug/build/p-1/out", PROFILE="debug")
    assert crate.env.names_read == {"CUDABUILD_JOBS", "CUDABUILD_LOG", "CUDABUILD_CACHE", "CUDABUILD_CACHE_DIR"}


def test_cudabuilds_variables_replace_the_files_values(crate: Crate) -> None:
    config = crate.config(BASE + 'jobs = 2\nlog = "quiet"', CUDABUILD_JOBS="7", CUDABUILD_LOG="verbose")
    assert (config.jobs, config.log) == (7, "verbose")
    assert crate.load(Overrides(jobs=1), CUDABUILD_JOBS="7").jobs == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("CUDABUILD_JOBS", v) for v in ("0", "-1", "x", "", "1.5", "²")] + [("CUDABUILD_LOG", v) for v in ("", "loud")],
)
def test_bad_variables_are_named(crate: Crate, name: str, value: str) -> None:
    assert f"{name} = {value!r}" in crate.error(BASE, **{name: value}).message


# The command line


def test_the_command_line_comes_last(crate: Crate) -> None:
    (crate.root / "cudabuild.toml").write_text(
        BASE + 'include = ["i"]\nsystem-include = ["s"]\ndefine = ["A=1"]\nflags = ["-G"]\nhost-flags = ["-Wall"]\n'
        'toolkit = "a"\nhost-compiler = "b"\njobs = 1\n'
    )
    config = crate.load(Overrides(
        source=("x.cu",), include=("i2",), system_include=("s2",), define=("A=2", "B=${C}"), arch=("90",),
        flag=("-lineinfo",),
        host_flag=("-g",), toolkit="c", host_compiler="d", jobs=2,
    ))  # fmt: skip
    assert config.sources == ("kernels/*.cu", "x.cu")
    assert (config.include, config.system_include) == (("i", "i2"), ("s", "s2"))
    assert config.define == ("A=1", "A=2", "B=${C}")
    assert config.arch == ("80", "90")
    assert (config.flags, config.host_flags) == (("-G", "-lineinfo"), ("-Wall", "-g"))
    assert (config.toolkit, config.host_compiler, config.jobs) == ("c", "d", 2)


@pytest.mark.parametrize(
    ("overrides", "option"),
    [
        (Overrides(source=("",)), "--source"),
        (Overrides(define=("1=2",)), "--define"),
        (Overrides(host_flag=(" ",)), "--host-flag"),
        (Overrides(system_include=("a\nb",)), "--system-include"),
        (Overrides(jobs=0), "--jobs"),
        (Overrides(toolkit=""), "--toolkit"),
    ],
)
def test_bad_options_are_named(crate: Crate, overrides: Overrides, option: str) -> None:
    (crate.root / "cudabuild.toml").write_text(BASE)
    with pytest.raises(ConfigError) as caught:
        crate.load(overrides)
    assert checked(caught.value).message.startswith(option)


def test_file_that_is_nested_too_deeply_is_explained(crate: Crate) -> None:
    assert "too deeply" in crate.error("x = " + "[" * 5000 + "]" * 5000 + "\n").message
