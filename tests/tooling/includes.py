# SPDX-License-Identifier: BSD-3-Clause
"""The sources include each other in one direction, keep to their own insides, know each word of an enum once, and
define each type once.

usage: includes.py SOURCE_DIR
"""
import os
import pathlib
import re
import sys

# The way of the data: a folder includes those before it. scene, config and perf stand beside what they do not need.
ORDER = ["core", "scene", "comm", "io", "config", "physics", "domain", "samples", "denoise", "solve", "solvers", "settings", "trace", "perf",
         "train", "app"]
# Tests of insides from elsewhere: benchmarks of one function, and hostile input for one reader.
LOOK_INSIDE = {"bench", "fuzz"}


def folder_of(path):
    parts = path.parts
    if parts[0] == "include":
        return parts[2]
    return parts[0] if parts[0] == "solvers" else parts[1]


def is_private(path):
    return path.parts[0] == "src" and path.suffix == ".hpp"


class Sources:
    """C++ files below a folder, by their paths from there, and what each includes of the others."""

    def __init__(self, texts):
        self.texts = texts
        self.unknown = []
        self.includes = {path: [self.find(path, name) for name in re.findall(r'^\s*#include "([^"]+)"', text, re.M)]
                         for path, text in texts.items()}
        self.includes = {path: [i for i in found if i] for path, found in self.includes.items()}

    def find(self, path, name):
        """Beside the file, from a public root, or from the private root of a folder (its target's own)."""
        roots = [path.parent, pathlib.Path("include"), pathlib.Path("tests"), pathlib.Path("src") / folder_of(path),
                 *(pathlib.Path("src") / folder for folder in ORDER)]
        for root in roots:
            candidate = pathlib.Path(os.path.normpath(root / name))
            if candidate in self.texts:
                return candidate
        if name.startswith("tessera/") or ".." in name:
            self.unknown.append(f"{path} includes {name} (no such file from a root) name it from include/ or its folder")
        return None


def circles(edges):
    """One line per circle in a graph {node: nodes}."""
    state, stack, found = {}, [], []

    def visit(node):
        state[node] = "open"
        stack.append(node)
        for other in edges.get(node, ()):
            if state.get(other) == "open":
                found.append(" -> ".join(map(str, [*stack[stack.index(other):], other])))
            elif other not in state:
                visit(other)
        stack.pop()
        state[node] = "done"

    for node in sorted(edges, key=str):
        if node not in state:
            visit(node)
    return found


def include_complaints(sources):
    complaints = list(sources.unknown)
    complaints += [f"{c} (files include each other) split one of them" for c in circles(sources.includes)]
    folders = {}
    for path, included in sources.includes.items():
        for other in included:
            if is_private(other) and folder_of(other) != folder_of(path) and folder_of(path) not in LOOK_INSIDE:
                complaints.append(f"{path} includes {other} (an inside of another folder) give it a public header, or "
                                  "ask for what it knows")
            if path.parts[0] != "tests" and folder_of(other) != folder_of(path):
                folders.setdefault(folder_of(path), set()).add(folder_of(other))
    complaints += [f"{c} (folders include each other) see docs/architecture.md" for c in circles(folders)]
    for folder, others in folders.items():
        complaints += [f"{folder} includes {o} (it stands to its right) see docs/architecture.md" for o in sorted(others)
                       if ORDER.index(o) > ORDER.index(folder)]
    return complaints


def room_complaints(sources):
    """The rooms of a folder (src/denoise/run) include each other in one direction. A public header is of the room where its
    source lies. What lies in none (beside the rooms, or without a source) leads on to what it includes."""
    homes = {}
    for path in sources.texts:
        if path.parts[0] == "src" and path.suffix != ".hpp":
            homes.setdefault((folder_of(path), path.stem), []).append(path.parent)

    def room(path):
        if path.parts[0] == "src":
            return path.parent if len(path.parts) > 3 else None
        home = homes.get((folder_of(path), path.stem), []) if path.parts[0] == "include" else []
        return home[0] if len(home) == 1 and len(home[0].parts) > 2 else None

    def reached(path, seen):
        for other in sources.includes[path]:
            if folder_of(other) != folder_of(path) or other in seen:
                continue
            seen.add(other)
            if room(other):
                yield room(other)
            else:
                yield from reached(other, seen)

    edges = {}
    for path in sources.texts:
        if path.parts[0] in ("src", "include") and room(path):
            edges.setdefault(room(path), set()).update(r for r in reached(path, set()) if r != room(path))
    return [f"{c} (rooms include each other) move what both need to one of them" for c in circles(edges)]


def tables(texts):
    """{enum: its words} of all kWords<...>, each of which stands beside its enum."""
    found = {}
    for path, text in texts.items():
        for enum, words in re.findall(r"kWords<(\w+)>\s*\{([^}]*)\}", text):
            if words:
                found.setdefault(enum, []).append((path, re.findall(r'"([^"]*)"', words)))
    return found


def word_complaints(texts):
    """A table more than once, or a comparison with a word of one, which is a second way from words to types."""
    complaints, all_tables = [], tables(texts)
    for enum, places in all_tables.items():
        if len(places) > 1:
            complaints.append(f"kWords<{enum}> stands in {', '.join(str(p) for p, _ in places)} keep one")
        path, words = places[0]
        values = re.search(rf"enum class {enum} \{{([^}}]*)\}}", texts[path])
        names = re.findall(r"^\s*(\w+)", re.sub(r"//.*", "", values.group(1)).replace(",", "\n"), re.M) if values else []
        if len(names) != len(words):
            complaints.append(f"{path}: {enum} has {len(names)} values and {len(words)} words (each has one)")
    # Words that mean nothing else; the others ("none", "patch") where a member of such a type is compared with text.
    words = {w for places in all_tables.values() for _, list_ in places for w in list_}
    own = "|".join(sorted(re.escape(w) for w in words if re.search(r"\d|-", w)))
    compared = re.compile(rf'[!=]=\s*(?:std::string\()?"(?:{own})"|(?:mode|averaging|precision|transport)\s*[!=]=\s*"'
                          if own else r'(?:mode|averaging|precision|transport)\s*[!=]=\s*"')
    for path, text in texts.items():
        if path.parts[0] == "tests":
            continue
        for line, code in enumerate(text.splitlines(), 1):
            if compared.search(code.split("//")[0]):
                complaints.append(f"{path}:{line} compares with a word (kWords knows it) compare with the value")
    return complaints


def type_complaints(texts):
    """Two types of one name: the linker takes the members of either for both, in silence."""
    found = {}
    for path, text in texts.items():
        if path.parts[0] == "tests":
            continue  # a program each
        shared = re.sub(r"^namespace \{$.*?^\}  // namespace$", "", text, flags=re.M | re.S)
        for name in re.findall(r"^(?:struct|class|union|enum class|enum) (\w+)(?: final)?\s*(?::(?!:)[^;{]*)?\{", shared, re.M):
            found.setdefault(name, []).append(path)
    return [f"{name} is defined in {paths[0]} and in {paths[1]} (one definition rule) name one of them otherwise"
            for name, paths in found.items() if len(paths) > 1]


def self_check():
    """The checks themselves must notice what is wrong."""
    p = pathlib.Path

    def made(files):
        return Sources({p(path): text for path, text in files.items()})

    a, b = "include/tessera/core/a.hpp", "include/tessera/core/b.hpp"
    assert not include_complaints(made({a: '#include "tessera/core/b.hpp"', b: ""}))
    assert include_complaints(made({a: '#include "tessera/core/b.hpp"', b: '#include "tessera/core/a.hpp"'}))
    private = {"src/denoise/run/x.hpp": "", "src/perf/y.cpp": '#include "run/x.hpp"'}
    assert include_complaints(made(private))
    private["src/perf/y.cpp"] = '#include "../denoise/run/x.hpp"'
    assert include_complaints(made(private))
    assert include_complaints(made({a: '#include "tessera/app/c.hpp"', "include/tessera/app/c.hpp": ""}))
    inner = {"src/denoise/run/a.cpp": '#include "graph/b.hpp"', "src/denoise/graph/b.hpp": "",
             "include/tessera/denoise/c.hpp": '#include "tessera/denoise/a.hpp"', "include/tessera/denoise/a.hpp": ""}
    assert not room_complaints(made(inner))
    inner["src/denoise/graph/b.hpp"] = '#include "tessera/denoise/c.hpp"'
    assert room_complaints(made(inner))
    enum = 'enum class E { one, two };\ninline constexpr std::array kWords<E>{"one", "two"};'
    assert not word_complaints({p(a): enum})
    assert word_complaints({p(a): enum, p(b): enum})
    assert word_complaints({p(a): enum.replace(', "two"', "")})
    assert word_complaints({p(a): enum, p("src/core/c.cpp"): 'if (o.mode == "one") return;'})
    assert not type_complaints({p(a): "class A final : public C {\n", p(b): "struct A;\nstruct A::Impl {\n"})
    assert not type_complaints({p(a): "struct A {\n", p(b): "namespace {\nstruct A {\n}\n}  // namespace\n"})
    assert type_complaints({p(a): "class A final : public C {\n", p(b): "struct A {\n"})


def main():
    self_check()
    source = pathlib.Path(sys.argv[1])
    texts = {path.relative_to(source): path.read_text()
             for root in ("include", "src", "solvers", "tests") for path in sorted((source / root).rglob("*"))
             if path.suffix in (".hpp", ".cpp", ".cu")}
    assert len(texts) > 300, len(texts)
    assert len(tables(texts)) > 3, tables(texts)
    sources = Sources(texts)
    assert sum(map(len, sources.includes.values())) > 1000
    complaints = include_complaints(sources) + room_complaints(sources) + word_complaints(texts) + type_complaints(texts)
    print("\n".join(complaints) or f"{len(texts)} files, {sum(map(len, sources.includes.values()))} includes")
    return 1 if complaints else 0


sys.exit(main())
