# SPDX-License-Identifier: BSD-3-Clause
"""What clang may read otherwise than gcc is read by it too, as it builds the programs of tests/fuzz.sh: clang.py SOURCE BUILD.
Files in a compiler's own words, and those where a lambda may capture a structured binding by reference, which clang before
16 refuses. Exit code 77: skipped, there is no clang."""
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

source, build = Path(sys.argv[1]), Path(sys.argv[2])
clang = shutil.which("clang++-14") or shutil.which("clang++")
if not clang:
    print("skipped: no clang++ (install clang-14)")
    sys.exit(77)


def closing(text, at):
    """Behind the brace that closes the block in which `at` lies."""
    depth = 1
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def captures_bindings(text):
    lambdas = [(m, closing(text, m.end())) for m in re.finditer(r"\[([&=][^\]\[]*)\]\s*(?:\([^{};]*?\))?[^{};()]*\{", text)]
    for binding in re.finditer(r"auto&{0,2} \[([\w, ]+)\]", text):
        end = closing(text, binding.end())  # a loop's is known in the loop alone: clang says so
        for name in binding[1].split(", "):
            for m, stop in lambdas:
                if binding.end() < m.start() < end and not re.search(rf"\b{name} =", m[1]):
                    if re.search(rf"(?<![\w.>:]){name}\b", text[m.end():stop]):
                        return True
    return False


# The test itself, on what clang refuses and what it takes.
refused = "{ for (const auto& [key, count] : all) { const auto f = [&](int x) { return x + count; }; f(1); } }"
assert captures_bindings(refused) and not captures_bindings(refused.replace("[&]", "[&, count = count]"))
own_words = re.compile(r"__builtin_|vector_size|immintrin\.h|_registers\.hpp")
commands = {Path(c["file"]): shlex.split(c["command"]) for c in json.loads((build / "compile_commands.json").read_text())}
files = [f for f in commands if f.is_relative_to(source / "src") and f.suffix == ".cpp"
         and (own_words.search(f.read_text()) or captures_bindings(f.read_text()))]
assert {f.stem for f in files} >= {"winograd_avx2", "winograd_avx512", "winograd_avx512_bf16"}, files
failed = 0
for file in files:
    words = commands[file]
    flags = words[next(i for i, w in enumerate(words) if w.startswith("-")):words.index("-o")]
    for i in [i for i, w in enumerate(flags) if w.endswith("cmake_pch.hxx")]:  # gcc's own form of it
        flags[i - 1:i + 1] = ["", ""]
    flags = [flag for flag in flags if flag]
    done = subprocess.run([clang, *flags, "-w", "-fsyntax-only", str(file)], cwd=build, text=True, capture_output=True)
    if done.returncode:
        failed += 1
        print(done.stderr)
print(f"{len(files)} files, {failed} that clang does not read")
sys.exit(1 if failed else 0)
