# SPDX-License-Identifier: BSD-3-Clause
"""The headers of include/tessera as pages: of each folder, what its headers declare and what stands in `///` above it."""
import re

TYPE = re.compile(r"\b(?:class|struct|union|enum(?: class)?)\s+(?:\[\[\w+\]\]\s+)?(\w+)[^;]*?\{", re.S)


def bare(line):
    """Without comments, texts and characters, whose braces count nothing."""
    return re.sub(r"//.*", "", re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", "0", line))


def declarations(text):
    """(comment, declaration) of what stands in a namespace, in order."""
    comment, code, depth, apart, continued = [], [], 0, True, False
    for line in text.splitlines():
        stripped = line.strip()
        preprocessor = continued or stripped.startswith("#")
        continued = preprocessor and stripped.endswith("\\")
        if not code:
            if stripped.startswith("///"):
                comment.append(stripped[3:].removeprefix(" "))
                continue
            if not stripped:
                comment, apart = [], True
            if not stripped or preprocessor or stripped.startswith("//") or re.match(r"(inline )?namespace\b|\}|extern \"C\"", stripped):
                continue
        elif preprocessor:
            continue
        code.append(line)
        words = bare(line)
        depth += words.count("{") + words.count("(") - words.count("}") - words.count(")")
        if depth == 0 and re.search(r"[;}]\s*$", words):
            yield "\n".join(comment), "\n".join(code), apart
            comment, code, apart = [], [], False


def public_part(code):
    """A class without what is private, the bodies of functions left out where they take more than a line."""
    out, hidden, depth, body = [], set(), 0, None  # hidden: depths of classes whose private part this is
    for line in code.splitlines():
        words = bare(line)
        access = re.match(r"\s*(public|protected|private):", line)
        if access and body is None:
            (hidden.add if access[1] == "private" else hidden.discard)(depth)
        end = depth + words.count("{") - words.count("}")
        hidden = {at for at in hidden if at <= end}
        if body is not None:
            body = None if end == body else body
        elif not hidden:
            opens = end > depth and re.search(r"\)[^;]*\{\s*$", words)
            out.append(line if not opens else re.sub(r"\s*\{\s*(//.*)?$", ";", line))
            body = depth if opens else None
        depth = end
    return re.sub(r"\n\s*\n(\s*\};)", r"\n\1", "\n".join(out))


def shown(code):
    """A declaration as a reader needs it: types whole but for what is private, functions without their bodies."""
    head = bare(code.split("{")[0])
    if TYPE.search(code) and not re.search(r"\)\s*(const|noexcept)*\s*$", head):
        return public_part(code)
    if re.search(r"\)[^={]*\{", code, re.S) and "=" not in head.split("(")[0]:
        match = re.search(r"\)((?:\s*(?:const|noexcept|->[^{]*))*)\s*(?::[^{]*)?\{", code, re.S)
        return code[:match.start(1)] + match[1].rstrip() + ";" if match else code
    return code if code.count("\n") < 12 else "\n".join([*code.splitlines()[:10], "  // ..."])


def name_of(code):
    code = re.sub(r"^\s*template\s*<.*>\s*$", "", code, flags=re.M)
    match = TYPE.search(code) or re.match(r"\s*(?:class|struct|enum class|enum)\s+(\w+)", code)
    if match:
        return match[1]
    using = re.search(r"\b(?:using|concept)\s+(\w+)\s*=", code)
    if using:
        return using[1]
    call = re.search(r"(operator\s*\S+?|~?\w+)\s*\(", code)
    value = re.search(r"(\w+)\s*(?:\[[^]]*\])?\s*(?:=|\{)", code)
    return value[1] if value and (not call or value.start() < call.start()) else call[1] if call else ""


def words_of(comment):
    """A comment as Markdown: what looks like a tag or a link is text."""
    lines = []
    for line in comment.splitlines():
        formula = line.startswith("    ")
        lines.append(line if formula else "".join(
            part if k % 2 else part.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
            for k, part in enumerate(re.split(r"(`[^`]*`)", line))))
        if formula and len(lines) > 1 and lines[-2].strip() and not lines[-2].startswith("    "):
            lines.insert(-1, "")
    return "\n".join(lines)


def header_section(path):
    """Of one header: what belongs together, without an empty line between, is one entry."""
    entries = []
    for comment, code, apart in declarations(path.read_text()):
        if re.match(r"\s*(class|struct|enum class) \w+( : \w+(::\w+)?)?;", code):  # declared here, said elsewhere
            continue
        values = code.startswith("inline constexpr") and entries and not entries[-1][1] and entries[-1][2][-1].startswith("inline constexpr")
        if entries and not comment and (not apart or values):
            entries[-1][2].append(shown(code))
        else:
            entries.append((name_of(code), comment, [shown(code)]))
    out = [f"## {path.name}", f"`#include \"tessera/{path.parent.name}/{path.name}\"`"]
    for name, comment, code in entries:
        out += [f"### `{name}`" if name else "", words_of(comment), "```cpp\n" + "\n".join(code) + "\n```"]
    return "\n\n".join(part for part in out if part) if entries else ""


def folder_page(folder):
    sections = [section for section in map(header_section, sorted(folder.glob("*.hpp"))) if section]
    about = f"[What the folder owns, and how to test it](../../docs/folders/{folder.name}.md)."
    lower = "---\nsearch:\n  boost: 0.3\n---"  # what guides say of a word is found first
    return "\n\n".join([lower, f"# {folder.name}: headers", about, *sections]) + "\n"
