"""This module lists ways to break the tool that must not go unnoticed: a text of the program, what stands there instead, and the
tests that have to fail then."""

from __future__ import annotations

from typing import NamedTuple

FIELDS = "tests/unit/test_key_fields.py"
SHARED = "tests/flow/test_shared_cache.py"
DECIDES = f"{FIELDS}::test_what_decides_an_object_keeps_another_from_being_served"
REQUEST_DIGEST = "digest_text(msgspec.json.encode(request).decode())"


class Mutation(NamedTuple):
    name: str
    file: str
    """Below cudabuild/."""
    old: str
    new: str
    tests: tuple[str, ...]
    """As pytest takes them."""


def _without(field: str, blank: str, *tests: str) -> list[Mutation]:
    """A request that does not know one field."""
    change = f"request = msgspec.structs.replace(request, {field}={blank})"
    return [
        Mutation(
            f"key without {field}", "pipeline.py", "        made = record.made.get(request.source)",
            f"        {change}\n        made = record.made.get(request.source)", tests,
        )
    ]  # fmt: skip


MUTATIONS = (
    # The key
    *_without("flags", "()", f"{DECIDES}[flags: flag]"),
    *_without("flags", "tuple(sorted(request.flags))", f"{DECIDES}[flags: order of flags]"),
    *_without("flags", "tuple(dict.fromkeys(request.flags))", f"{DECIDES}[flags: twice]"),
    *_without("environment", "()", f"{FIELDS}::test_variable_that_compilers_read_decides[PTXAS_FLAGS]"),
    *_without("tools", "()", f"{DECIDES}[tools: bin/ptxas]"),
    *_without("tools", "request.tools[:1]", f"{DECIDES}[tools: host compiler]"),
    *_without("bound_to", "()", f"{DECIDES}[bound_to: place of an object with line tables]"),
    *_without("commands", '""', f"{DECIDES}[commands: what a wrapper adds]"),
    *_without("format", "0", f"{DECIDES}[format: version of cudabuild]"),
    Mutation(
        "key without source", "cache/keys.py", 'return digest_text(msgspec.json.encode((request, reading)).decode())',
        'return digest_text(msgspec.json.encode((msgspec.structs.replace(request, source=""), reading)).decode())',
        ("tests/property/test_keys_property.py::test_any_single_field_of_a_request_decides_the_key",),
    ),
    Mutation(
        "readings found without source", "cache/keys.py", f"return {REQUEST_DIGEST}",
        f"return {REQUEST_DIGEST.replace('encode(request)', 'encode(request.flags)')}", (f"{DECIDES}[source: name]", SHARED),
    ),
    Mutation(
        "environment without NVCC_APPEND_FLAGS", "nvcc/arguments.py", '"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN",',
        '"NVCC_PREPEND_FLAGS", "NVCC_CCBIN",', ("tests/flow/test_key_inputs.py",),
    ),
    Mutation(
        "checkouts by their real names", "roots.py", "                return name + path[len(root):]", "                return path",
        (f"{FIELDS}::test_what_does_not_decide_an_object_has_it_served[another checkout]",),
    ),
    # The reading
    Mutation(
        "files are not looked at", "cache/reading.py", "    if not disk.unchanged.issuperset(reading.files):", "    if False:",
        (f"{DECIDES}[files: header]",),
    ),
    Mutation(
        "absent paths are not looked at", "cache/reading.py", "    if not disk.absent.issuperset(reading.absent):", "    if False:",
        (f"{DECIDES}[absent: shadowing header]",),
    ),
    Mutation(
        "present paths are not looked at", "cache/reading.py",
        'found += [KeyChange("present", name) for name in reading.present if not disk.holds(real(name))]', "pass",
        (f"{DECIDES}[present: header that was there]",),
    ),
    Mutation(
        "incomplete readings hold", "cache/reading.py", 'found += [KeyChange("untracked", reason) for reason in reading.untracked]',
        "pass", ("tests/unit/test_reading.py",),
    ),
    Mutation(
        "absent paths are not made", "cache/reading.py", "absent = shadows(paths, search, exists)",
        "absent: set[str] = set()", (f"{DECIDES}[absent: shadowing header]",),
    ),
    Mutation(
        "what a build found true holds for ever", "cache/reading.py", "        self.unchanged.clear()\n        self.absent.clear()\n", "",
        ("tests/unit/test_reading.py", "tests/unit/test_shared.py", SHARED),
    ),
    Mutation(
        "time of the compile is shared", "cache/shared.py", " or made.reading.unshared", "",
        (f"{SHARED}::test_time_of_the_compile_is_not_served",),
    ),
    Mutation(
        "fixed date is not known", "cache/reading.py", '"SOURCE_DATE_EPOCH" in environment', "False",
        (f"{SHARED}::test_time_that_is_fixed_is_served",),
    ),
    Mutation(
        "times in toolkit headers count", "cache/reading.py", "    for path in search.outside(paths):\n        found += ",
        "    for path in paths:\n        found += ", (f"{SHARED}::test_toolkit_header_that_mentions_the_time_does_not_count",),
    ),
    Mutation(
        "names in full are shared", "cache/reading.py", "    if roots.crate in request.bound_to:\n", "    if True:\n",
        (f"{SHARED}::test_file_named_in_full_is_the_one_that_is_meant",),
    ),
    # Places
    Mutation(
        "nothing is bound to its place", "nvcc/arguments.py", "    if _holds_paths(config, unit, environment, roots):", "    if False:",
        (f"{SHARED}::test_object_that_names_its_folder_is_good_there_alone",),
    ),
    Mutation(
        "generated sources are shared", "nvcc/arguments.py", "places = [unit.source, *map(", "places = [*map(",
        ("tests/unit/test_bound.py",),
    ),
    Mutation(
        "flags that name the crate do not bind", "nvcc/arguments.py",
        "named = [root for root in (roots.crate, roots.out) if _names(given, root)]", "named: list[str] = []",
        (f"{SHARED}::test_folder_named_in_full_is_the_one_where_a_header_must_not_appear",),
    ),
    # The store
    Mutation(
        "publish without a look at the object", "cache/store.py",
        "if data is None or hashlib.sha256(data).hexdigest() != made.object:", "if data is None:",
        ("tests/unit/test_store.py",),
    ),
    Mutation(
        "fetch without the digest of the object", "cache/store.py", " or hashlib.sha256(data).hexdigest() != description.digest", "",
        (f"{SHARED}::test_damaged_file_is_noticed_and_healed",),
    ),
    Mutation(
        "fetch without the digest of the description", "cache/store.py", "if hashlib.sha256(text).digest() != digest:",
        "if False:", ("tests/unit/test_store.py",),
    ),
    Mutation(
        "readings without their key", "cache/store.py", "if reading is not None and key(request, reading) == name:",
        "if reading is not None:", ("tests/unit/test_store.py",),
    ),
    Mutation(
        "answers without their seal", "cache/store.py", "return text if hashlib.sha256(text).hexdigest().encode() == digest else b\"\"",
        "return text", ("tests/unit/test_store.py",),
    ),
    Mutation(
        "damaged entries stay", "cache/store.py", "            self.forget(path)\n            raise CacheError(f\"{path} is damaged",
        "            raise CacheError(f\"{path} is damaged", ("tests/unit/test_store.py",),
    ),
    Mutation(
        "any folder is a cache", "cache/store.py", "            if names and MARKER not in names:", "            if False:",
        ("tests/unit/test_store.py", "tests/unit/test_housekeeping.py", "tests/unit/test_shared.py"),
    ),
    Mutation(
        "trouble with the cache ends the build", "cache/shared.py", "except (CacheError, OSError, locks.NoLocks) as error:",
        "except ZeroDivisionError as error:", (f"{SHARED}::test_damaged_file_is_noticed_and_healed",),
    ),
    Mutation(
        "read-only cache is written", "cache/shared.py", 'config.cache_mode == "read-write"', "True",
        (f"{SHARED}::test_read_only_cache_serves_and_takes_nothing",),
    ),
    # Claims
    Mutation(
        "claims are not held", "cache/shared.py", "                            held.callback(lock.release)",
        "                            lock.release()",
        ("tests/faults/test_kills.py::test_live_build_is_waited_for_by_name_and_its_work_taken",),
    ),
    Mutation(
        "no look between claim and compile", "pipeline.py",
        "        _restore(known, shared, out, disk)  # what was made between the look and the claim\n", "",
        (f"{SHARED}::test_what_was_made_between_the_look_and_the_claim_is_served",),
    ),
    # Inputs that move
    Mutation(
        "nothing ever moves", "compile.py", "        after = stamp(path)\n        if path in self._stamps:",
        "        return False\n        after = stamp(path)\n        if path in self._stamps:",
        (f"{SHARED}::test_object_of_a_text_that_moved_is_not_stored",),
    ),
    Mutation(
        "stamps are settled at once", "files.py",
        "return now_ns - self.changed_ns > (_COARSE_GRAIN_NS if whole_seconds else _FINE_GRAIN_NS)", "return True",
        ("tests/unit/test_files.py",),
    ),
    Mutation(
        "tools that were swapped before the compile", "compile.py",
        'for _, path, known in toolchain.probe.tools if (disk.digest(path) or "") != known', "for path in ()",
        ("tests/unit/test_compile.py",),
    ),
    # The library
    Mutation(
        "members are added to the old library", "archive.py", "        os.replace(temporary, path)\n",
        "        run([found[0], \"rsD\", name, *argv[3:]], env=env.copy(), cwd=folder)\n", ("tests/unit/test_archive.py",),
    ),
    Mutation(
        "library is not looked at", "archive.py", "and digests.of(path) == record.archive", "", ("tests/unit/test_archive.py",),
    ),
    Mutation(
        "objects in the output folder are not looked at", "cache/decisions.py", "    if now != made.object:", "    if False:",
        ("tests/unit/test_decisions.py",),
    ),
)  # fmt: skip
