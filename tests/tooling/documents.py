# SPDX-License-Identifier: BSD-3-Clause
"""Links between documents lead somewhere, scripts that documents name exist, and all files name the same version.

usage: documents.py SOURCE_DIR
"""
import pathlib
import re
import sys


def link_complaints(path, text):
    complaints = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:|#", target):
            continue
        if not (path.parent / target.split("#")[0]).exists():
            complaints.append(f"{path.name} links to {target} (no such file)")
    return complaints


def script_complaints(source, path, text):
    named = re.findall(r"(?<![\w/.-])((?:jobs|tests|docs|data|\.ci)/[\w./-]*\.(?:sh|py|md|yaml))", text)
    return [f"{path.name} names {name} (no such file)" for name in named if not (source / name).exists()]


def version_complaints(cmake, citation, changelog):
    version = re.search(r"project\(tessera VERSION ([\d.]+)", cmake).group(1)
    complaints = []
    if re.search(r"^version: (.*)$", citation, re.M).group(1) != version:
        complaints.append(f"CITATION.cff does not say version {version}, as CMakeLists.txt does")
    if re.search(r"^## ([\d.]+)", changelog, re.M).group(1) != version:
        complaints.append(f"the first entry of docs/changelog.md is not {version}, as CMakeLists.txt says")
    return complaints


def main():
    source = pathlib.Path(sys.argv[1])
    documents = [source / "README.md", source / "tests/README.md", *sorted((source / "docs").glob("*.md"))]
    assert len(documents) > 5, documents
    # The checks themselves must notice what is wrong.
    assert link_complaints(source / "README.md", "see [x](docs/nowhere.md)")
    assert script_complaints(source, source / "README.md", "run `jobs/nothing.sh`")
    assert len(version_complaints("project(tessera VERSION 1.2", "version: 1.1", "## 1.3")) == 2

    complaints = version_complaints((source / "CMakeLists.txt").read_text(), (source / "CITATION.cff").read_text(),
                                    (source / "docs/changelog.md").read_text())
    for path in documents:
        text = path.read_text()
        complaints += link_complaints(path, text) + script_complaints(source, path, text)
    print("\n".join(complaints) or f"{len(documents)} documents")
    return 1 if complaints else 0


sys.exit(main())
