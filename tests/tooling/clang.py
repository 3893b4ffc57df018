# SPDX-License-Identifier: BSD-3-Clause
"""What is written in a compiler's own words is read by clang too, which builds the programs of tests/fuzz.sh: clang.py SOURCE BUILD.
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

own_words = re.compile(r"__builtin_|vector_size|immintrin\.h")
commands = {Path(c["file"]): shlex.split(c["command"]) for c in json.loads((build / "compile_commands.json").read_text())}
files = [f for f in commands if f.is_relative_to(source / "src") and f.suffix == ".cpp" and own_words.search(f.read_text())]
assert {f.stem for f in files} >= {"winograd_avx2", "winograd_avx512"}, files
failed = 0
for file in files:
    words = commands[file]
    flags = words[next(i for i, w in enumerate(words) if w.startswith("-")):words.index("-o")]
    done = subprocess.run([clang, *flags, "-w", "-fsyntax-only", str(file)], cwd=build, text=True, capture_output=True)
    if done.returncode:
        failed += 1
        print(done.stderr)
print(f"{len(files)} files, {failed} that clang does not read")
sys.exit(1 if failed else 0)
