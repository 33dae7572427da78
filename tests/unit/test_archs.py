from __future__ import annotations

import itertools

import pytest

from cudabuild.errors import ConfigError, ToolchainError
from cudabuild.nvcc.archs import Arch, Resolution, resolve

# As nvcc 13.0 prints them: not in order.
AVAILABLE = tuple(f"compute_{n}" for n in (75, 80, 86, 87, 88, 89, 90, 100, 110, 103, 120, 121))
TOOLKIT = "nvcc 13.0.88 at /opt/cuda/bin/nvcc"


def no_gpu() -> tuple[str, ...]:
    return ()


def resolved(*words: str, native: tuple[str, ...] = ()) -> Resolution:
    return resolve(words, AVAILABLE, lambda: native, TOOLKIT)


def labels(*words: str, native: tuple[str, ...] = ()) -> list[str]:
    return [label for arch in resolved(*words, native=native).archs for label in arch.labels()]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("80", ["sm_80"]),
        ("sm_80", ["sm_80"]),
        ("80-real", ["sm_80"]),
        ("compute_80", ["compute_80"]),
        ("80-virtual", ["compute_80"]),
        ("80+ptx", ["sm_80", "compute_80"]),
        ("sm_80+ptx", ["sm_80", "compute_80"]),
        ("90a", ["sm_90a"]),
        ("compute_90a", ["compute_90a"]),
        ("100f", ["sm_100f"]),
        ("120a+ptx", ["sm_120a", "compute_120a"]),
        ("all-major", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "compute_120"]),
    ],
)
def test_words_mean_machine_code_or_ptx(word: str, expected: list[str]) -> None:
    assert labels(word) == expected


def test_all_is_every_architecture_and_ptx_of_the_newest_generation() -> None:
    assert labels("all") == [
        "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120",
        "compute_120", "sm_121",
    ]  # fmt: skip


def test_all_major_without_a_whole_number_is_the_oldest() -> None:
    assert resolve(["all-major"], ["86"], no_gpu, TOOLKIT).archs == (Arch("86", True, True),)


def test_order_is_by_number_and_not_by_the_words() -> None:
    words = ["100", "90", "compute_90", "90a", "80", "80"]
    results = {resolved(*order) for order in itertools.permutations(words)}
    assert [[a.labels() for a in r.archs] for r in results] == [
        [("sm_80",), ("sm_90", "compute_90"), ("sm_90a",), ("sm_100",)]
    ]


def test_gencode_is_one_argument_for_each_architecture() -> None:
    assert Arch("80", True, False).gencode() == ("-gencode=arch=compute_80,code=sm_80",)
    assert Arch("90a", False, True).gencode() == ("-gencode=arch=compute_90a,code=compute_90a",)
    assert Arch("90", True, True).gencode() == ("-gencode=arch=compute_90,code=[sm_90,compute_90]",)


@pytest.mark.parametrize(
    "word", ["", "8.0", "sm80", "sm_", "80;90", "ampere", "80-ptx", "compute_80+ptx", "90b", " 80", "80\n", "٨٠"]
)
def test_other_words_are_refused_with_the_grammar(word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolved("80", word)
    assert caught.value.exit_code == 2
    assert word in caught.value.message
    assert "compute_80" in caught.value.hint


def test_all_archs_that_the_toolkit_lacks_are_named_in_one_message() -> None:
    with pytest.raises(ConfigError) as caught:
        resolved("70", "80", "130", "80a", "90f")
    message = caught.value.message
    assert "70, 80a, 90f, 130;" in message
    assert TOOLKIT in message
    assert "75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121" in message


def test_a_toolkit_that_lists_a_variant_can_build_it() -> None:
    assert resolve(["77a"], ["77a"], no_gpu, TOOLKIT).archs == (Arch("77a", True, False),)


def test_native_is_every_gpu_of_the_machine() -> None:
    assert labels("native", native=("90", "80")) == ["sm_80", "sm_90"]
    assert labels("native", "80+ptx", native=("90", "80")) == ["sm_80", "compute_80", "sm_90"]
    assert labels("native+ptx", native=("90",)) == ["sm_90", "compute_90"]
    assert not resolved("native", "70-virtual".replace("70", "80"), native=("90",)).warnings


def test_native_alone_without_a_gpu_is_an_error() -> None:
    with pytest.raises(ToolchainError) as caught:
        resolved("native")
    assert caught.value.exit_code == 3
    assert "no GPU" in caught.value.message
    assert "arch =" in caught.value.hint


def test_native_beside_others_without_a_gpu_warns_what_was_built() -> None:
    result = resolved("native", "90", "compute_80")
    assert [arch.labels() for arch in result.archs] == [("compute_80",), ("sm_90",)]
    (warning,) = result.warnings
    assert "native" in warning and "no GPU" in warning and "compute_80, sm_90" in warning


def test_a_gpu_that_the_toolkit_lacks_is_said_to_be_this_machines() -> None:
    with pytest.raises(ConfigError, match="70 \\(70: this machine's GPU"):
        resolved("native", native=("70",))


def test_gpus_are_asked_for_only_when_a_word_needs_it() -> None:
    def never() -> tuple[str, ...]:
        raise AssertionError

    assert resolve(["80"], AVAILABLE, never, TOOLKIT).warnings == ()
