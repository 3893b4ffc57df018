# SPDX-License-Identifier: BSD-3-Clause
"""Every listing of docs/add_*.md and docs/arrays_in_memory.md that names a file is that file, whole.

usage: pages.py SOURCE_DIR
"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
LISTING = re.compile(r"^`([\w/.]+)`:\n\n```cpp\n(.*?)^```$", re.M | re.S)


def complaints(page, text):
    found = LISTING.findall(text)
    if not found:
        return [f"{page} shows no file"]
    return [f"{page} shows {name}, which is otherwise" for name, listing in found
            if listing != (source / name).read_text()]


pages = sorted([*(source / "docs").glob("add_*.md"), source / "docs/arrays_in_memory.md"])
names = {page.name for page in pages}
assert names == {"add_a_denoiser.md", "add_a_format.md", "add_a_global_operator.md", "arrays_in_memory.md", "add_a_network.md", "add_a_rule.md", "add_a_solver.md", "add_an_operator.md"}, names
# The check itself must notice a changed listing.
text = pages[0].read_text()
assert complaints("a page", text.replace("namespace", "name space", 1)) and complaints("a page", "no listing")
found = [c for page in pages for c in complaints(page.name, page.read_text())]
print("\n".join(found) or f"{len(pages)} pages show their files")
sys.exit(bool(found))
