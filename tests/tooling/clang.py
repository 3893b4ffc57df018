# SPDX-License-Identifier: BSD-3-Clause
"""What is in a compiler's own words is read by clang too, as it builds the programs of tests/fuzz.sh: clang.py SOURCE BUILD.
Exit code 77: skipped, there is no clang."""
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


def compiled():
    """Each source with the command that compiles it, alone or with others."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file, words = Path(entry["file"]), shlex.split(entry["command"])
        several = re.findall(r'^#include "(.*)"$', file.read_text(), re.M) if file.suffix == ".cxx" else [file]
        yield from ((Path(one), words) for one in several)


own_words = re.compile(r"__builtin_|vector_size|immintrin\.h|_registers\.hpp")
commands = {file: words for file, words in compiled() if file.is_relative_to(source / "src") and file.suffix == ".cpp"
            and own_words.search(file.read_text())}
assert {f.stem for f in commands} >= {"winograd_avx2", "winograd_avx512", "winograd_avx512_bf16"}, commands.keys()
failed = 0
for file, words in commands.items():
    flags = words[next(i for i, w in enumerate(words) if w.startswith("-")):words.index("-o")]
    for i in [i for i, w in enumerate(flags) if w.endswith("cmake_pch.hxx")]:  # gcc's own form of it
        flags[i - 1:i + 1] = ["", ""]
    flags = [flag for flag in flags if flag]
    done = subprocess.run([clang, *flags, "-w", "-fsyntax-only", str(file)], cwd=build, text=True, capture_output=True)
    if done.returncode:
        failed += 1
        print(done.stderr)
print(f"{len(commands)} files, {failed} that clang does not read")
sys.exit(1 if failed else 0)
