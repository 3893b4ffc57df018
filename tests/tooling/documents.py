# SPDX-License-Identifier: BSD-3-Clause
"""Links between documents and notebooks lead somewhere, to a heading where they name one, scripts that documents name exist, pages of folders stay short, and all files name the same version.

usage: documents.py SOURCE_DIR
"""
import json
import pathlib
import re
import sys


def anchors(text):
    """As GitHub makes them of headings, outside of code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h)).strip().lower().replace(" ", "-") for h in headings}


def link_complaints(path, text):
    complaints = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists():
            complaints.append(f"{path.name} links to {target} (no such file)")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text() if name else text):
            complaints.append(f"{path.name} links to {target} (no such heading)")
    return complaints


def script_complaints(source, path, text):
    named = re.findall(r"(?<![\w/.-])((?:jobs|tests|docs|data|\.ci)/[\w./-]*\.(?:sh|py|md|yaml))", text)
    return [f"{path.name} names {name} (no such file)" for name in named if "NAME" not in name and not (source / name).exists()]


def length_complaints(name, text):
    """`name`: of the page below docs. What is read before a change has to be read in a few minutes."""
    most = 300 if name.startswith("folders/") else 900 if name == "architecture.md" else None
    words = len(text.split())
    return [f"docs/{name} has {words} words ({most} at most)"] if most and words > most else []


def version_complaints(header, citation, changelog, package):
    """The header is what CMake reads; the program's own answer is compared by programs.sh."""
    version = ".".join(re.findall(r"^#define TESSERA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M))
    complaints = []
    if re.search(r"^version: (.*)$", citation, re.M).group(1) != version:
        complaints.append(f"CITATION.cff does not say version {version}, as version.hpp does")
    if f'version = "{version}"' not in package:
        complaints.append(f"pyproject.toml does not say version {version}, as version.hpp does")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", changelog, re.M)
    if not versions or versions[0][0] != version:
        complaints.append(f"the first version of docs/changelog.md is not '## [{version}] - DATE', as version.hpp says")
    elif re.search(r"^date-released: (.*)$", citation, re.M).group(1) != versions[0][1]:
        complaints.append(f"CITATION.cff is not of {versions[0][1]}, as the first version of docs/changelog.md is")
    if [date for _, date in versions] != sorted((date for _, date in versions), reverse=True):
        complaints.append("the versions of docs/changelog.md are not newest first")
    for heading in re.findall(r"^#{2,} (.*)$", changelog, re.M):
        if heading not in ("[Unreleased]", "Added", "Changed", "Fixed", "Removed") and not re.match(r"\[[\d.]+\] - [\d-]+$", heading):
            complaints.append(f"docs/changelog.md has the heading '{heading}' (Added, Changed, Fixed, Removed are known)")
    return complaints


def package_complaints(version, place, text):
    """What a reader copies asks for a version that is there: before 1.0 another minor one is refused."""
    return [f"{place} finds tessera {found} (this is {version})" for found in re.findall(r"find_package\(tessera ([\d.]+)", text)
            if found != version.rsplit(".", 1)[0]]


def main():
    source = pathlib.Path(sys.argv[1])
    documents = [source / "README.md", source / "CONTRIBUTING.md", source / "tests/README.md", source / "data/weights/README.md", *sorted((source / "docs").glob("*.md"))]
    folders = sorted((source / "docs/folders").glob("*.md"))
    assert len(documents) > 5 and len(folders) > 5, (documents, folders)
    documents += folders
    # The checks themselves must notice what is wrong.
    assert link_complaints(source / "README.md", "see [x](docs/nowhere.md)")
    assert link_complaints(source / "README.md", "see [x](docs/gpu.md#nowhere) and [y](#none)\n# Nowhere")[1:]
    assert not link_complaints(source / "README.md", "see [x](docs/solvers.md#how-long) and [y](#a-b)\n## A, `B`")
    assert script_complaints(source, source / "README.md", "run `jobs/nothing.sh`")
    assert length_complaints("folders/core.md", "word " * 301) and length_complaints("architecture.md", "word " * 901)
    assert not length_complaints("folders/core.md", "word " * 300) and not length_complaints("architecture.md", "word " * 900)
    assert not length_complaints("job_file.md", "word " * 5000)
    assert package_complaints("1.2.3", "page", "find_package(tessera 1.1 REQUIRED)") and not package_complaints("1.2.3", "page", "find_package(tessera 1.2)")
    header = "".join(f"#define TESSERA_VERSION_{part} {n}\n" for part, n in (("MAJOR", 1), ("MINOR", 2), ("PATCH", 3)))
    citation = "version: 1.2.3\ndate-released: 2000-01-01\n"
    assert not version_complaints(header, citation, "## [1.2.3] - 2000-01-01\n\n### Added\n", 'version = "1.2.3"')
    assert len(version_complaints(header, "version: 1.1", "## [1.3.0] - 2000-01-01", "")) == 3
    assert len(version_complaints(header, citation, "## [1.2.3] - 2000-01-02\n### News\n## [1.2.2] - 2001-01-01", 'version = "1.2.3"')) == 3

    complaints = version_complaints((source / "include/tessera/core/version.hpp").read_text(), (source / "CITATION.cff").read_text(),
                                    (source / "docs/changelog.md").read_text(), (source / "pyproject.toml").read_text())
    version = re.search(r'^version = "(.*)"$', (source / "pyproject.toml").read_text(), re.M).group(1)
    for path in documents:
        text = path.read_text()
        complaints += package_complaints(version, path.name, text)
        complaints += link_complaints(path, text) + script_complaints(source, path, text)
        if path.is_relative_to(source / "docs"):
            complaints += length_complaints(path.relative_to(source / "docs").as_posix(), text)
    for path in sorted((source / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        complaints += link_complaints(path, text) + script_complaints(source, path, text)
    print("\n".join(complaints) or f"{len(documents)} documents")
    return 1 if complaints else 0


sys.exit(main())
