# SPDX-License-Identifier: BSD-3-Clause
"""Lays the pages of the site together and has mkdocs make it; jobs/site.sh calls it.

usage: build.py OUTPUT VERSION [REPOSITORY]
"""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import griffe
import yaml

import headers
import pages

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/**/*.md", "tests/README.md", "tests/reference/README.md", "data/weights/README.md"]
FILES = ["docs/img/*", "docs/*.csv", "LICENSE", "CITATION.cff", "notebooks/*.ipynb"]


def documents_and_files():
    """{path in the tree: path below the site's pages} of all that has a page, and of what is copied as it is."""
    found = {}
    for pattern in DOCUMENTS + FILES:
        for path in sorted(SOURCE.glob(pattern)):
            name = path.relative_to(SOURCE).as_posix()
            found[name] = name.replace(".ipynb", ".md") if name.endswith(".ipynb") else name
    return found


# --- the Python package ------------------------------------------------------------------------------------------------

def missing_docstrings(package):
    """Of public names: functions, classes, their methods and properties; an attribute may stand in the words of its class."""
    def lacks(thing, place):
        if thing.is_alias:
            thing = thing.final_target
        if not thing.docstring:
            yield f"{place} has no docstring ({thing.relative_package_filepath}:{thing.lineno})"
        if thing.is_class:
            about = thing.docstring.value if thing.docstring else ""
            for name, member in thing.members.items():
                if name.startswith("_") or member.is_alias:
                    continue
                if member.is_attribute and "property" not in member.labels and re.search(rf"\b{name}\b", about):
                    continue
                yield from lacks(member, f"{place}.{name}")

    assert package.exports, "tessera/__init__.py has no __all__"
    return [line for name in package.exports for line in lacks(package.members[str(name)], f"tessera.{name}")]


def python_page(package):
    """Everything in __all__, by the module that it comes from, in the order of the guide."""
    about = {"running": "Whole jobs", "result": "What a run left", "trace": "Traces", "operators": "Operators", "denoisers": "Denoisers",
             "solvers": "Solvers", "metrics": "Comparing", "program": "The program"}
    modules = {}
    for name in package.exports:
        modules.setdefault(package.members[str(name)].target_path.split(".")[-2], []).append(str(name))
    out = ["# Python", "The package `tessera`. The guide is [From Python](../docs/python.md)."]
    for module in [*(m for m in about if m in modules), *(m for m in modules if m not in about)]:
        out += [f"## {about.get(module, module.capitalize())}", *(f"::: tessera.{name}" for name in sorted(modules[module], key=str.lower))]
    return "\n\n".join(out) + "\n"


# --- what stands beside the pages --------------------------------------------------------------------------------------

def row_entries(cell, base):
    """Links of a row's first cell: one page, or several under the words before their colon."""
    links = [(title, (base / target).as_posix()) for title, target in re.findall(r"\[([^]]+)\]\(([^)#]+)\)", cell)]
    group = re.match(r"\s*(\w[\w ]*): \[", cell)
    return [{group[1]: [{title: target} for title, target in links]}] if group else [{title: target} for title, target in links]


def navigation(staged, cpp):
    """That of docs/README.md: its sections, each with the pages of its table."""
    from posixpath import normpath

    def placed(entry):
        return {title: [placed(e) for e in target] if isinstance(target, list) else staged[normpath(target)] for title, target in entry.items()}

    text = (SOURCE / "docs/README.md").read_text()
    sections = {}
    for title, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        rows = re.findall(r"^\| (?!page|---)(.*?) \|", body, re.M)
        sections[title] = [placed(entry) for row in rows for entry in row_entries(row, Path("docs"))]
    notebooks = [entry.pop("Notebooks") for section in sections.values() for entry in section if "Notebooks" in entry]
    sections = {title: [entry for entry in entries if entry] for title, entries in sections.items()}
    assert notebooks and list(sections)[0] == "Use", sections
    sections["Extend"] += [{"Weights, their origin": "data/weights/README.md"}, {"References of tests": "tests/reference/README.md"}]
    home = [{"tessera": "README.md"}, {"Index": "docs/README.md"}, {"Gallery": "gallery.md"}]
    return [{"Home": home}, {"Notebooks": notebooks[0]}, *({title: entries} for title, entries in sections.items()),
            {"Reference": [{"Python": "api/python.md"}, {"C++": cpp}]}]


def stage(folder, repository):
    """All pages below `folder`; returns the navigation, and what is wrong with the package's docstrings."""
    staged = documents_and_files()
    links = pages.Links(SOURCE, staged, repository)

    def write(name, text, path=None):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pages.for_python_markdown(links.of(text, path or name)))

    for path, name in staged.items():
        if path.endswith(".ipynb"):
            text, pictures = pages.notebook_page(json.loads((SOURCE / path).read_text()), Path(path).stem)
            write(name, text, path)
            for picture, data in pictures.items():
                (folder / "notebooks" / picture).write_bytes(base64.b64decode(data))
        elif path.endswith(".md"):
            write(name, (SOURCE / path).read_text())
        if not path.endswith(".md"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SOURCE / path, folder / path)
    shutil.copyfile(HERE / "website.css", folder / "website.css")
    shutil.copyfile(HERE / "gallery.md", folder / "gallery.md")

    package = griffe.load("tessera", search_paths=[SOURCE / "python"])
    write("api/python.md", python_page(package))
    cpp = []
    for part in sorted((SOURCE / "include/tessera").iterdir()):
        write(f"api/cpp/{part.name}.md", headers.folder_page(part))
        cpp.append({part.name: f"api/cpp/{part.name}.md"})
    return navigation(staged, cpp), missing_docstrings(package)


def write_versions(output, version):
    """versions.json for the theme's list, and a front page that leads to the newest."""
    def order(name):
        return [int(n) for n in re.findall(r"\d+", name)]

    there = [folder.name for folder in output.iterdir() if (folder / "index.html").exists()]
    releases = sorted((name for name in there if order(name)), key=order, reverse=True)
    names = releases + sorted(set(there) - set(releases))
    newest = releases[0] if releases else version
    (output / "versions.json").write_text(json.dumps(
        [{"version": name, "title": name, "aliases": ["latest"] if name == newest else []} for name in names]))
    (output / "index.html").write_text(f'<!doctype html><meta charset="utf-8"><title>tessera</title>'
                                       f'<meta http-equiv="refresh" content="0; url={newest}/index.html"><a href="{newest}/index.html">tessera</a>\n')


def main():
    output, version, repository = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
    staging = output.parent / f"{output.name}-pages"
    shutil.rmtree(staging, ignore_errors=True)
    nav, complaints = stage(staging / "pages", repository)
    if complaints:
        print("\n".join(complaints), "(public names are documented) write one", sep="\n", file=sys.stderr)
        return 1
    config = staging / "mkdocs.yml"
    place = {"INHERIT": str(HERE / "mkdocs.yml"), "docs_dir": "pages", "site_dir": "site", "nav": nav}
    config.write_text(yaml.safe_dump(place, sort_keys=False))
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config], cwd=SOURCE,
                          env=os.environ | {"TESSERA_PACKAGE": str(SOURCE / "python"), "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode:
        return 1
    for name in ("404.html", "sitemap.xml", "sitemap.xml.gz"):  # of a site whose address is known
        (staging / "site" / name).unlink()
    shutil.rmtree(output / version, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    (staging / "site").rename(output / version)
    shutil.rmtree(staging)
    write_versions(output, version)
    return 0


sys.exit(main())
