# SPDX-License-Identifier: BSD-3-Clause
"""jobs/average_weights.py: what lies between two files of one network."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import torch
from safetensors import safe_open
from safetensors.torch import save_file

os.umask(UMASK := os.umask(0o022))
sys.path.insert(0, str(pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "jobs"))
import average_weights  # noqa: E402


class Average(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, tensors, **metadata):
        save_file(tensors, self.folder / name, metadata or None)

    def average(self, *arguments):
        with unittest.mock.patch("sys.argv", ["average_weights.py", *(a if a[0] == "-" else str(self.folder / a) for a in arguments)]), \
                contextlib.redirect_stdout(io.StringIO()):
            average_weights.main()

    def test_lies_between_the_two(self):
        for dtype in (torch.float32, torch.float16):
            self.file("a", {"w": torch.tensor([1.0, -3.0], dtype=dtype)}, network="drunet", steps="7")
            self.file("b", {"w": torch.tensor([2.0, 5.0], dtype=dtype)}, network="drunet")
            for share, expected in ((0, [1.0, -3.0]), (0.25, [1.25, -1.0]), (1, [2.0, 5.0])):
                self.average("a", "b", "out", f"--share={share}")
                with safe_open(self.folder / "out", "pt") as out:
                    self.assertEqual(out.get_tensor("w").tolist(), expected)
                    self.assertEqual(out.get_tensor("w").dtype, dtype)
                    self.assertEqual(out.metadata(), {"network": "drunet", "average": f"{1 - share:g} a + {share:g} b"})
        self.average("a", "b", "out", "--half")
        with safe_open(self.folder / "out", "pt") as out:
            self.assertEqual(out.get_tensor("w").dtype, torch.float16)
        self.assertEqual((self.folder / "out").stat().st_mode & 0o777, 0o666 & ~UMASK)

    def test_what_does_not_fit_is_refused_and_leaves_nothing(self):
        self.file("a", {"w": torch.zeros(2)})
        self.file("wider", {"w": torch.zeros(3)})
        self.file("other", {"v": torch.zeros(2)})
        (self.folder / "text").write_text("no weights, but some words")
        for arguments, reason in ((("a", "wider", "out"), "of two networks"), (("a", "other", "out"), "of two networks"),
                                  (("a", "text", "out"), "is no safetensors file"), (("gone", "a", "out"), "cannot be read"),
                                  (("a", "a", "out", "--share=1.5"), "--share is 1.5"), (("a", "a", "no/folder/out"), "cannot be written")):
            with self.assertRaises(SystemExit) as end:
                self.average(*arguments)
            self.assertIn(reason, end.exception.code)
            self.assertRegex(end.exception.code, r"^average_weights.py: .+ \(.+\) .+$")
            self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()
