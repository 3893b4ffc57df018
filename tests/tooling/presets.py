# SPDX-License-Identifier: BSD-3-Clause
"""A misspelt cache variable is silent in CMake. Compares the names in CMakePresets.json, the options given to this
build, and the options and presets that the documents mention, with those that the project declares.

usage: presets.py SOURCE_DIR BINARY_DIR CMAKE
"""
import json
import pathlib
import re
import subprocess
import sys


def declared_options(source):
    """Names in option(NAME ...) and set(NAME ... CACHE ...) of the build's own files."""
    names = set()
    for path in [source / "CMakeLists.txt", source / "src/CMakeLists.txt", *(source / "src/cmake").glob("*.cmake")]:
        text = path.read_text()
        names |= set(re.findall(r"^\s*option\((\w+)", text, re.M))
        names |= set(re.findall(r"^\s*set\((\w+)[^)]*?\sCACHE\s", text, re.M))
    return names


def preset_complaints(presets, options, cmake_variables):
    complaints = []
    names = {p["name"] for p in presets["configurePresets"]}
    for preset in presets["configurePresets"]:
        inherited = preset.get("inherits", [])
        for base in [inherited] if isinstance(inherited, str) else inherited:
            if base not in names:
                complaints.append(f"preset {preset['name']} inherits {base} (no such preset)")
        for variable in preset.get("cacheVariables", {}):
            if variable not in options and variable not in cmake_variables:
                complaints.append(f"preset {preset['name']} sets {variable} (neither ours nor CMake's)")
    for preset in presets.get("buildPresets", []):
        if preset["configurePreset"] not in names:
            complaints.append(f"build preset {preset['name']} uses {preset['configurePreset']} (no such preset)")
    return complaints


def cache_complaints(cache, options):
    """TESSERA_ names that were given to this build and that nothing declares."""
    given = re.findall(r"^(TESSERA_\w+):UNINITIALIZED=", cache, re.M)
    return [f"{name} was given to this build (no such option)" for name in given if name not in options]


def document_complaints(documents, options, presets):
    complaints = []
    for path, text in documents.items():
        for name in re.findall(r"-D\s*(TESSERA_\w+)", text):
            if name not in options:
                complaints.append(f"{path} names the option {name} (no such option)")
        for name in re.findall(r"--preset[ =](\w+)", text):
            if name not in presets:
                complaints.append(f"{path} names the preset {name} (no such preset)")
    return complaints


def main():
    source, binary, cmake = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    presets = json.loads((source / "CMakePresets.json").read_text())
    options = declared_options(source)
    listed = subprocess.run([cmake, "--help-variable-list"], capture_output=True, text=True, check=True).stdout
    cmake_variables = {name.replace("<LANG>", language) for name in listed.split() for language in ("C", "CXX", "CUDA")}
    visible = {p["name"] for p in presets["configurePresets"] if not p.get("hidden")}
    documents = {p: p.read_text() for p in [source / "README.md", *(source / "docs").glob("*.md")] if p.exists()}

    assert {"release", "debug", "sanitize", "libtorch"} <= visible, visible
    assert {"TESSERA_VENV", "TESSERA_SANITIZE", "TESSERA_CUDA_ARCHITECTURES"} <= options, options
    # The checks themselves must notice a misspelt name.
    misspelt = {"configurePresets": [{"name": "a", "inherits": "b", "cacheVariables": {"TESSERA_SANITISE": "ON"}}],
                "buildPresets": [{"name": "c", "configurePreset": "d"}]}
    assert len(preset_complaints(misspelt, options, cmake_variables)) == 3
    assert cache_complaints("TESSERA_SANITISE:UNINITIALIZED=ON\n", options)
    assert len(document_complaints({"x": "cmake --preset relase -DTESSERA_TEST=ON"}, options, visible)) == 2

    complaints = preset_complaints(presets, options, cmake_variables)
    complaints += cache_complaints((binary / "CMakeCache.txt").read_text(), options)
    complaints += document_complaints(documents, options, visible)
    print("\n".join(complaints) or f"{len(visible)} presets, {len(options)} options, {len(documents)} documents")
    return 1 if complaints else 0


sys.exit(main())
