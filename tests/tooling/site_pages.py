# SPDX-License-Identifier: BSD-3-Clause
"""Documents and headers as pages of the site: what jobs/website makes of lists, links, notebooks and declarations.

usage: site_pages.py SOURCE_DIR
"""
import re
import sys
import tempfile
import unittest
from pathlib import Path

source = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(source / "jobs/website"))
sys.dont_write_bytecode = True
import headers  # noqa: E402
import pages  # noqa: E402


class Documents(unittest.TestCase):
    def changed(self, text, wanted):
        self.assertEqual(pages.for_python_markdown(text), wanted)

    def test_lists_are_indented_by_four(self):
        self.changed("words\n- a\n  - b\n    more\n- c\n", "words\n\n- a\n    - b\n        more\n- c\n")
        self.changed("1. a\n\n   more\n   - b\n\nout\n", "1. a\n\n    more\n    - b\n\nout\n")
        self.changed("10. a\n    - b\n", "10. a\n    - b\n")
        self.changed("- a\nlazy\n", "- a\n    lazy\n")

    def test_fences_and_tables_stand_apart_and_keep_their_inside(self):
        self.changed("- a\n  ```\n  - x\n      y\n  ```\n  after\n", "- a\n\n    ```\n    - x\n        y\n    ```\n    after\n")
        self.changed("words\n| a |\n|---|\n", "words\n\n| a |\n|---|\n")
        self.changed("```\n- x\n  - y\n| z\n```\n", "```\n- x\n  - y\n| z\n```\n")
        self.changed("words\n\n    formula - 1\n", "words\n\n    formula - 1\n")

    def test_links(self):
        staged = {"docs/a.md": "docs/a.md", "notebooks/n.ipynb": "notebooks/n.md", "docs/img/p.png": "docs/img/p.png"}
        for repository, file in (("", "`x.py` and y (`jobs/site.sh`)"), ("https://h/b", "[`x.py`](https://h/b/tests/tooling/site_pages.py) and [y](https://h/b/jobs/site.sh)")):
            links = pages.Links(source, staged, repository)
            text = "[`x.py`](../tests/tooling/site_pages.py) and [y](../jobs/site.sh)"
            self.assertEqual(links.of(text, "docs/b.md"), file)
            for text, wanted in {"[n](../notebooks/n.ipynb#p) [w](https://w.org) [h](#h)": "[n](../notebooks/n.md#p) [w](https://w.org) [h](#h)",
                                 "[box](../include/tessera/core/box.hpp)": "[box](../api/cpp/core.md#boxhpp)",
                                 "[![p](img/p.png)](a.md#b)": "[![p](img/p.png)](a.md#b)",
                                 "[gone](nowhere.md)": "[gone](nowhere.md)",
                                 "```\n[y](../jobs/site.sh)\n```": "```\n[y](../jobs/site.sh)\n```"}.items():
                self.assertEqual(links.of(text, "docs/b.md"), wanted)

    def test_a_notebook_shows_what_its_cells_did(self):
        cells = [{"cell_type": "markdown", "source": ["# T\n", "\n", "words"]},
                 {"cell_type": "code", "source": ["f()"], "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1 < 2\n"]},
                                                                      {"output_type": "display_data", "data": {"image/png": "QQ=="}},
                                                                      {"output_type": "execute_result", "data": {"text/plain": ["a  b"]}}]}]
        text, pictures = pages.notebook_page({"cells": cells}, "n")
        self.assertEqual(pictures, {"n_1.png": "QQ=="})
        order = [text.index(part) for part in ("# T", "words", "n.ipynb", "```python\nf()\n```", "```text\n1 < 2\n```", "](n_1.png)", '"output rows"', "a  b")]
        self.assertEqual(order, sorted(order))


HEADER = '''// SPDX
#pragma once
#include <x>
namespace tessera {
class Later;
/// What it is, of `T<int>` and a < b.
///     y = A x
template <class T>
class Thing : public Base<T> {
 public:
  Thing() : a_("{") {}
  /// Runs it.
  int run(int k) const {
    return k;
  }
  class Inner {
   public:
    void go();

   private:
    int b_;
  };
  int one() const { return 1; }  // "}" counts nothing

 private:
  int a_;
};

/// Adds.
inline int add(int a, int b) {
  return a + b;
}
int add(int a, int b, int c);

enum class Kind { a, b };
inline constexpr int kMost = 3;
/// A function that makes one.
using Make = std::function<int(int)>;
}  // namespace tessera
'''


class Headers(unittest.TestCase):
    def test_what_is_declared_is_shown_with_its_comment(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "core/thing.hpp"
            file.parent.mkdir()
            file.write_text(HEADER)
            text = headers.header_section(file)
        self.assertEqual([line for line in text.splitlines() if line.startswith("#")],
                         ["## thing.hpp", "### `Thing`", "### `add`", "### `Kind`", "### `Make`"])
        for part in ("of `T<int>` and a &lt; b.\n\n    y = A x", "  /// Runs it.\n  int run(int k) const;\n  class Inner {\n   public:\n    void go();\n  };\n"
                     "  int one() const { return 1; }", "inline int add(int a, int b);\nint add(int a, int b, int c);", "inline constexpr int kMost = 3;", "Adds."):
            self.assertIn(part, text)
        for part in ("a_;", "b_;", "private", "Later", "return k", "return a + b"):
            self.assertNotIn(part, text)

    def test_of_all_headers_every_type_and_nothing_private(self):
        folders = [folder for folder in sorted((source / "include/tessera").iterdir())]
        self.assertGreater(len(folders), 10)
        for folder in folders:
            page = headers.folder_page(folder)
            self.assertEqual(page.count("```") % 2, 0)
            self.assertFalse("private:" in page or "### ``" in page, folder)
            for file in folder.glob("*.hpp"):
                for name in re.findall(r"^///.*\n(?:template.*\n)?(?:class|struct|enum class) (\w+) [^;]*?\{", file.read_text(), re.M):
                    self.assertTrue(f"### `{name}`" in page, (file, name))


unittest.main()
