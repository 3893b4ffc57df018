# SPDX-License-Identifier: BSD-3-Clause
"""The site as it is built: every link and picture of every page leads somewhere, nothing is fetched from elsewhere, words are found; and
what is wrong in a document or a docstring ends the build.

usage: site.py SOURCE_DIR
"""
import json
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

source = Path(sys.argv[1]).resolve()
REPOSITORY = "https://code.example/tessera/blob/main"


class Page(HTMLParser):
    """Where a page leads, what it loads, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.places, self.pictures = [], [], set(), 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found[key] for key in ("id", "name") if found.get(key)}
        self.pictures += tag == "img"
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        for key in ("src", "href"):
            if found.get(key) and (tag in ("img", "script", "iframe", "source") or tag == "link" and found.get("rel") != "canonical"):
                self.loads.append(found[key])


def complaints_of(site):
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    out = []
    for path, page in pages.items():
        name = path.relative_to(site)
        out += [f"{name} loads {target} from elsewhere" for target in page.loads if urlsplit(target).netloc]
        for target in page.links + page.loads:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                out.append(f"{name} leads to {target} (no such file)")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].places:
                out.append(f"{name} leads to {target} (no such place)")
    return out, pages


def build(tree, output, *more):
    done = subprocess.run([tree / "jobs/site.sh", "--output", output, "--repository", REPOSITORY, *more], text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def copy_of(tree):
    """What the site is made of."""
    for name in ("docs", "include", "jobs", "notebooks", "python"):
        shutil.copytree(source / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in ("README.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff", "tests/README.md", "tests/reference/README.md", "data/weights/README.md"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, tree / name)
    (tree / "build").mkdir()
    (tree / "build/site-venv").symlink_to(source / "build/site-venv")


def check_site(folder):
    code, said = build(source, folder, "--version", "1.2.0")
    assert code == 0, said
    shutil.copytree(folder / "1.2.0", folder / "1.10.0")  # another version, there already
    assert build(source, folder, "--version", "next")[0] == 0
    assert [row["version"] for row in json.loads((folder / "versions.json").read_text())] == ["1.10.0", "1.2.0", "next"]
    assert "1.10.0/index.html" in (folder / "index.html").read_text()

    site = folder / "1.2.0"
    found, pages = complaints_of(site)
    assert not found, "\n".join(found)
    documents = list((source / "docs").rglob("*.md")) + list((source / "notebooks").glob("*.ipynb"))
    assert len(pages) > len(documents) + 15, len(pages)
    for notebook in (source / "notebooks").glob("*.ipynb"):
        assert pages[site / f"notebooks/{notebook.stem}.html"].pictures >= 1, notebook
    assert pages[site / "gallery.html"].pictures >= 8
    assert any(link.startswith(f"{REPOSITORY}/src/") for link in pages[site / "docs/architecture.html"].links)
    index = json.loads((site / "search/search_index.json").read_text())["docs"]
    places = {entry["location"] for entry in index}
    for place in ("docs/tomography.html#which-solver", "api/python.html#tessera.reconstruct", "api/cpp/comm.html#exchangeplan", "notebooks/scaling.html"):
        assert place in places, (place, sorted(places)[:50])
    for folder_page in (site / "api/cpp").glob("*.html"):
        assert folder_page.read_text().count("<h3") >= 1, folder_page
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links, {len(index)} entries to search")

    # The parser itself must notice what is wrong.
    (site / "bad.html").write_text('<a href="none.html"></a><a href="gallery.html#none"></a><img src="none.png"><script src="//x.example/x.js"></script>')
    assert len(complaints_of(site)[0]) == 4


def check_faults(folder):
    tree = folder / "tree"
    copy_of(tree)
    files = tree / "docs/files.md"
    files.write_text(files.read_text() + "\n[a](nowhere.md) [b](noise.md#nowhere) ![c](img/nowhere.png)\n")
    (tree / "docs/alone.md").write_text("# No row in the index\n")
    code, said = build(tree, tree / "out")
    assert code == 1, said
    for word in ("nowhere.md", "#nowhere", "nowhere.png", "alone.md"):
        assert word in said, (word, said)
    assert not (tree / "out/versions.json").exists()

    running = tree / "python/tessera/running.py"
    text = running.read_text()
    assert text.count('    """What `tessera plan` predicts') == 1
    running.write_text(text.replace('    """What `tessera plan` predicts', '    _ = """What'))
    code, said = build(tree, tree / "out")
    assert code == 1 and "tessera.plan has no docstring" in said, said


def main():
    ready = subprocess.run([source / "jobs/site.sh", "--setup"], text=True, capture_output=True)
    if ready.returncode:
        print(f"skipped: {(ready.stdout + ready.stderr).strip()}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        check_site(Path(folder) / "site")
        check_faults(Path(folder))
    return 0


sys.exit(main())
