# SPDX-License-Identifier: BSD-3-Clause
"""Documents of the tree as pages of the site: lists as Python-Markdown wants them, links that lead somewhere on the site."""
import os
import re

FENCE = re.compile(r"^( *)(`{3,}|~{3,})")
ITEM = re.compile(r"^( *)([-*+]|\d+[.)])( +)(?=\S)")
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)")
HEADER = re.compile(r"include/tessera/(\w+)/(\w+)\.hpp")


def for_python_markdown(text):
    """GitHub's Markdown indents a list's inside by the width of its marker, Python-Markdown by four; and lists, tables and
    fences want an empty line before them."""
    out, inside, fence = [], [], None  # inside: columns at which the items around begin
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if fence:
            out.append("    " * len(inside) + line[min(indent, fence[0]):])
            fence = None if line.strip().startswith(fence[1]) and not line.strip().strip(fence[1][0]) else fence
            continue
        if not line.strip():
            out.append("")
            continue
        item, opening, after, first = ITEM.match(line), FENCE.match(line), bool(out) and bool(out[-1].strip()), not inside
        if item or opening or not after:
            while inside and indent < inside[-1]:
                inside.pop()
        margin = "    " * len(inside)
        previous = out[-1].lstrip() if out else ""
        if item and indent - (inside[-1] if inside else 0) < 4:
            if after and first:
                out.append("")
            out.append(f"{margin}{item[2]} {line[item.end():]}")
            inside.append(item.end())
            continue
        if after and (opening or line.lstrip().startswith("|") and not previous.startswith("|")):
            out.append("")
        out.append(margin + (line[min(indent, inside[-1]):] if inside else line))
        if opening:
            fence = (indent, opening[2])
    return "\n".join(out) + "\n"


class Links:
    """Where links of a document lead on the site."""

    def __init__(self, source, staged, repository):
        self.source, self.staged, self.repository = source, staged, repository

    def of(self, text, path):
        """`path`: of the document in the tree. Links have code in their words, so that fences alone are left out."""
        parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.M | re.S)
        return "".join(part if k % 2 else LINK.sub(lambda m: self._one(m, path), part) for k, part in enumerate(parts))

    def _one(self, match, path):
        image, words, target = match.groups()
        words = LINK.sub(lambda m: self._one(m, path), words)  # a picture that is a link
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return f"{image}[{words}]({target})"
        name, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name))
        hash_anchor = f"#{anchor}" if anchor else ""
        if file in self.staged:
            return f"{image}[{words}]({self._relative(self.staged[file], path)}{hash_anchor})"
        header = HEADER.fullmatch(file)
        if header:
            return f"[{words}]({self._relative(f'api/cpp/{header[1]}.md', path)}#{header[2]}hpp)"
        if not (self.source / file).exists():
            return f"{image}[{words}]({target})"  # mkdocs says so
        if not self.repository:
            return words if words.startswith("`") else f"{words} (`{file}`)"
        return f"[{words}]({self.repository}/{file}{hash_anchor})"

    @staticmethod
    def _relative(file, path):
        return os.path.relpath(file, os.path.dirname(path) or ".")


def notebook_page(notebook, name):
    """(Markdown, {name of a picture: its base64 text}) of a stored notebook: its cells, each with what it showed."""
    out, pictures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            out.append(source)
            continue
        out.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}_{len(pictures) + 1}.png"
                pictures[file] = "".join(data["image/png"])
                out.append(f"![output of the lines above]({file})")
            else:
                text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
                kind = "output" if "text" in output else "output rows"  # lines, or a table, which is not wrapped
                out.append(f'<div class="{kind}" markdown="1">\n\n```text\n{text}\n```\n\n</div>')
    title, rest = out[0].split("\n", 1)
    origin = f"This page is a notebook with its output: [{name}.ipynb]({name}.ipynb){{: download }}."
    return "\n\n".join([title, rest.strip(), origin, *out[1:]]) + "\n", pictures
