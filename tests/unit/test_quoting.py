from __future__ import annotations

import shlex

import msgspec
import pytest

from cudabuild.config.schema import BuildConfig
from cudabuild.errors import ConfigError
from cudabuild.host import Environment
from cudabuild.nvcc import quoting, reserved


@pytest.mark.parametrize("kind", ["source", "folder"])
@pytest.mark.parametrize(
    "path", ["a$b", "a`b", 'a"b', "a'b", "a,b", "a\\b", "a\nb", "a\tb", "a\x7fb", "-I.cu", "d/$(touch x).cu"]
)
def test_paths_that_nvcc_would_change_are_refused(kind: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quoting.refuse(kind, path, "sources")  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert "sources" in caught.value.message and repr(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("path", ["k.cu", "a b/ünï (1) #2 [x]; & *.cu", "../x/k.cu", "/abs/k-1.cu", "%~=@!^{}|<>?+:"])
def test_other_paths_pass(path: str) -> None:
    quoting.refuse("source", path, "sources")
    quoting.refuse("folder", path, "include")


@pytest.mark.parametrize("path", ["/a`b", '/a"b', "/a\\b", "/a$(b)", "/a${b}", "/a$$b", "/a\nb"])
def test_a_crate_folder_that_the_shell_would_act_on_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="crate"):
        quoting.refuse("crate", path, "the crate's folder")


@pytest.mark.parametrize("path", ["/a$x", "/it's, so", "/a b#1/ünï", "/-x"])
def test_a_crate_folder_is_otherwise_free(path: str) -> None:
    quoting.refuse("crate", path, "the crate's folder")


@pytest.mark.parametrize(
    "flag", ["-DX=$HOME", "-DX=`id`", "-Xcompiler=;id", "-DX=(1)", "-DX=a|b", "-DX=a&b", "-DX=1<2", "-a\n"]
)
def test_flags_that_the_shell_would_act_on_are_refused(flag: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quoting.refuse("flag", flag, "flags")
    assert repr(flag) in caught.value.message


@pytest.mark.parametrize(
    "flag", ["--use_fast_math", "-Xptxas=-v,-O3", "-Xcompiler", "-Wall,-Wextra", '-DX="a,b"', "-diag-suppress=177"]
)
def test_flags_in_nvccs_own_syntax_pass(flag: str) -> None:
    quoting.refuse("flag", flag, "flags")


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        ("X", "-DX"),
        ("LIMBS=12", "-DLIMBS=12"),
        ("F=(a < b) && c; #%'", "-DF=(a < b) && c; #%'"),
        ('V="1.0"', r"-DV=\"1.0\""),
        ("V=a,b", r"-DV=a\,b"),
        ("V=$x", r"-DV=\\$x"),
        ("V=`x`", r"-DV=\\`x\\`"),
        ("V=a\\b", r"-DV=a\\\\b"),
    ],
)
def test_defines_are_escaped_for_nvcc_and_its_shell(value: str, argument: str) -> None:
    assert quoting.define_argument(value, "define") == argument


@pytest.mark.parametrize(
    "value", ["-Wall", "-fsanitize=address,undefined", "-DX=a b", "-DX='\"$`\\;&|<>()*?~#!", "ünï", "~x", "#x"]
)
def test_host_arguments_survive_both_readers(value: str) -> None:
    option, argument = quoting.host_arguments(value, "host-flags")
    assert option == "-Xcompiler"
    assert shlex.split(_as_nvcc_reads(argument)) == [value]


def test_host_arguments_need_no_escapes_in_plain_flags() -> None:
    assert quoting.host_arguments("-march=x86-64-v3", "host-flags")[1] == "-march=x86-64-v3"
    assert quoting.host_arguments("-Wl,-z,now", "host-flags")[1] == r"-Wl\,-z\,now"


@pytest.mark.parametrize("value", ["X=a\nb", "X=\x00", "X=\x1b"])
def test_control_characters_are_refused_everywhere(value: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        quoting.define_argument(value, "define")
    with pytest.raises(ConfigError, match="control character"):
        quoting.host_arguments(value, "host-flags")


def _as_nvcc_reads(argument: str) -> str:
    """One level of backslashes goes, and a comma left bare would be a space."""
    out, characters = "", iter(argument)
    for character in characters:
        if character == "\\":
            out += next(characters)
        else:
            assert character not in ',"', argument
            out += character
    return out


@pytest.mark.parametrize(
    ("flags", "cure"),
    [
        (["-arch=sm_80"], "arch"),
        (["-lineinfo", "-arch", "sm_80"], "arch"),
        (["--gpu-architecture=sm_80"], "arch"),
        (["-gencode", "arch=compute_80,code=sm_80"], "arch"),
        (["--generate-code=arch=compute_80,code=sm_80"], "arch"),
        (["-code=sm_80"], "arch"),
        (["-arch=native"], "arch"),
        (["-std=c++20"], "std"),
        (["--std", "c++20"], "std"),
        (["-cudart", "shared"], "cudart"),
        (["-ccbin", "g++"], "host-compiler"),
        (["-x", "cu"], ".cu"),
        (["-rdc=true"], "later release"),
        (["--relocatable-device-code", "true"], "later release"),
        (["-dlto"], "later release"),
        *(([flag], "remove") for flag in sorted(reserved.OUTPUT - {"-optf", "--options-file"})),
        (["-optf", "more"], "write its flags out"),
        (["--options-file=more"], "write its flags out"),
        (["-o", "x.o"], "remove"),
        (["-MF=x.d"], "remove"),
        (["-Xptxas", "-v", "-c"], "remove"),
        (["k2.cu"], "sources"),
        (["-lineinfo", "x.o"], "sources"),
        (["-diag-suppress 177"], "one string for each"),
        (["-use_fast_math -G"], "one string for each"),
    ],
)
def test_flags_that_belong_elsewhere_are_refused_with_the_cure(flags: list[str], cure: str) -> None:
    with pytest.raises(ConfigError) as caught:
        reserved.refuse_flags(flags, "cudabuild.toml: flags")
    assert caught.value.exit_code == 2
    assert "cudabuild.toml: flags" in caught.value.message
    assert cure in caught.value.hint


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--use_fast_math", "-maxrregcount=64", "-Xptxas", "-c"],
        ["-Xcompiler", "-o", "-include", "pre.cuh", "-diag-suppress", "177,20012"],
        ["-DX=a b", "-Iq r", "-O2", "-G", "-t0", "--expt-relaxed-constexpr", "--default-stream", "per-thread"],
    ],
)
def test_other_flags_pass(flags: list[str]) -> None:
    reserved.refuse_flags(flags, "flags")


@pytest.mark.parametrize(
    "flag", ["-c", "-E", "-S", "-o", "-ox", "-MD", "-MMD", "-MFx", "-Wp,-MD,x", "-xc", "-std=c++20"]
)
def test_host_flags_that_take_the_output_away_are_refused(flag: str) -> None:
    with pytest.raises(ConfigError, match="host-flags"):
        reserved.refuse_host_flags(["-Wall", flag], "host-flags")


def test_other_host_flags_pass() -> None:
    reserved.refuse_host_flags(
        ["-march=native", "-O1", "-fopenmp", "-Wp,-D_FORTIFY_SOURCE=2", "-Ix", "-stdlib=libc++"], "host-flags"
    )


@pytest.mark.parametrize(
    "value", ["-o x", "-lineinfo -M", "--options-file=x", "-Xptxas -v -c", "-odir 'a b'", "-DX=' -E"]
)
def test_nvccs_variables_may_not_move_the_output(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        reserved.refuse_variable("NVCC_APPEND_FLAGS", value)
    assert caught.value.exit_code == 2
    assert "NVCC_APPEND_FLAGS" in caught.value.message


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-arch=sm_80",
        "-gencode arch=compute_90,code=sm_90 -std=c++20",
        "-Xcompiler -c",
        "-DX='-c'",
        "-ccbin g++",
        "'",
    ],
)
def test_nvccs_variables_are_otherwise_the_users(value: str) -> None:
    reserved.refuse_variable("NVCC_APPEND_FLAGS", value)


@pytest.mark.parametrize(
    ("flags", "host_flags", "variables", "word"),
    [
        (("-c",), (), {}, "x.toml: flags"),
        (("-DX=$Y",), (), {}, "x.toml: flags"),
        ((), ("-c",), {}, "x.toml: host-flags"),
        ((), (), {"NVCC_PREPEND_FLAGS": "-E"}, "NVCC_PREPEND_FLAGS"),
        ((), (), {"NVCC_APPEND_FLAGS": "-E"}, "NVCC_APPEND_FLAGS"),
    ],
)
def test_every_place_that_holds_flags_is_checked(
    flags: tuple[str, ...], host_flags: tuple[str, ...], variables: dict[str, str], word: str
) -> None:
    base = BuildConfig(name="x", crate_root="/c", config_file="/c/x.toml", sources=("k.cu",), arch=("80",))
    reserved.check(base, Environment({}))
    with pytest.raises(ConfigError) as caught:
        reserved.check(msgspec.structs.replace(base, flags=flags, host_flags=host_flags), Environment(variables))
    assert word in caught.value.message


def test_nvccs_variables_are_announced_when_checked() -> None:
    env = Environment({})
    reserved.check(BuildConfig(name="x", crate_root="/c", config_file="/c/x.toml", sources=(), arch=()), env)
    assert env.names_read == set(reserved.VARIABLES)


UNSEEN = [
    "-specs=x.specs", "--specs=x", "-Bdir", "-B", "-fplugin=p.so", "-fprofile-use", "-fprofile-use=x.gcda", "-fauto-profile=x",
    "-fbranch-probabilities", "-wrapper", "--include-directory=x", "--include-directory-after=x", "-iprefix", "-iwithprefixbefore", "-I-",
]  # fmt: skip


@pytest.mark.parametrize("flag", UNSEEN)
def test_host_flags_that_bring_in_what_nobody_reports_are_refused(flag: str) -> None:
    for host_flags in ([flag], [f"-Wp,-DX,{flag}"]):
        with pytest.raises(ConfigError, match="cannot see"):
            reserved.refuse_host_flags(host_flags, "host-flags")
    for flags in ([f"-Xcompiler=-Wall,{flag}"], ["-Xcompiler", flag], ["--compiler-options", f"-Wall {flag}"], [flag]):
        with pytest.raises(ConfigError, match="cannot see"):
            reserved.refuse_flags(flags, "flags")
    with pytest.raises(ConfigError, match="NVCC_PREPEND_FLAGS.*cannot see"):
        reserved.refuse_variable("NVCC_PREPEND_FLAGS", f"-lineinfo -Xcompiler '-O2,{flag}'")


def test_flags_for_the_linker_and_macros_are_no_host_flags() -> None:
    reserved.refuse_flags(["-Xlinker", "-Bstatic", "-Xlinker=-Bstatic", "-D", "-B", "-Xcompiler=--sysroot=/x"], "flags")
    reserved.refuse_host_flags(["-Wl,-Bstatic", "--sysroot=/x", "-include", "x.h"], "host-flags")


@pytest.mark.parametrize("path", ["/a/$(b)/g++", "/a`b`/g++", '/a"/g++', "/a\\b/g++", "/a\n/g++", "/a/g++;id", "/a/g++ x"])
def test_a_host_compiler_that_the_shell_would_act_on_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="host-compiler"):
        quoting.refuse_program(path, "host-compiler")


@pytest.mark.parametrize("path", ["/a b/it's; (1)/g++-13", "/usr/bin/x86_64-linux-gnu-g++", "/opt/clang++"])
def test_other_host_compilers_pass(path: str) -> None:
    quoting.refuse_program(path, "host-compiler")
