# SPDX-License-Identifier: BSD-3-Clause
"""jobs/widen_weights.py: twice as wide, the same function, and no two channels that learn the same."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

SOURCE = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "jobs"))
import widen_weights  # noqa: E402


def drunet(t, x, sigma):
    """A drunet with a block per scale, of pictures (N, C, H, W) or volumes (N, C, D, H, W)."""
    conv, up = (F.conv2d, F.conv_transpose2d) if x.dim() == 4 else (F.conv3d, F.conv_transpose3d)

    def block(x, name):
        return x + conv(conv(x, t[f"{name}.res.0.weight"], padding=1).relu(), t[f"{name}.res.2.weight"], padding=1)
    x = conv(torch.cat([x, torch.full_like(x[:, :1], sigma)], 1), t["m_head.weight"], padding=1)
    skips = [x]
    scales = sum(name.startswith("m_down") and name.endswith(".1.weight") for name in t)
    for s in range(1, scales + 1):
        x = conv(block(x, f"m_down{s}.0"), t[f"m_down{s}.1.weight"], stride=2)
        skips.append(x)
    x = block(x, "m_body.0")
    for s in range(scales, 0, -1):
        x = block(up(x + skips[s], t[f"m_up{s}.0.weight"], stride=2), f"m_up{s}.1")
    return conv(x + skips[0], t["m_tail.weight"], padding=1)


class Widen(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def widen(self, *arguments):
        with unittest.mock.patch("sys.argv", ["widen_weights.py", *map(str, arguments)]), contextlib.redirect_stdout(io.StringIO()) as said:
            widen_weights.main()
        return said.getvalue()

    def test_computes_the_same_with_twice_the_channels(self):
        torch.manual_seed(0)
        for name, shape in (("drunet_small_gray", (1, 1, 24, 40)), ("drunet_small_color", (1, 3, 24, 16)), ("drunet3d_small", (1, 1, 8, 12, 16))):
            source = SOURCE / "data/weights" / f"{name}.safetensors"
            self.widen(source, self.folder / "wide")
            narrow, wide = load_file(source), load_file(self.folder / "wide")
            self.assertEqual(wide["m_body.0.res.0.weight"].shape[:2], tuple(2 * n for n in narrow["m_body.0.res.0.weight"].shape[:2]))
            x = torch.rand(shape)
            expected = drunet(narrow, x, 0.1)
            self.assertLess((expected - x).abs().mean(), 0.3)  # it is the network, and not noise
            self.assertLess((drunet(wide, x, 0.1) - expected).abs().max(), 2e-5)
            # The two copies of a channel weigh what they read each in its way, and come to the same.
            first, second = wide["m_body.0.res.0.weight"].chunk(2, 0)
            self.assertLess((sum(first.chunk(2, 1)) - sum(second.chunk(2, 1))).abs().max(), 1e-6)
            self.assertGreater((first - second).abs().mean(), 0.1 * first.abs().mean())

    def test_other_files_are_refused(self):
        save_file({"m_head.weight": torch.zeros(4, 2, 3, 3), "m_head.bias": torch.zeros(4)}, self.folder / "bias", {"network": "drunet", "widths": "4"})
        save_file({"w": torch.zeros(4, 2, 3, 3)}, self.folder / "other", {"network": "dncnn"})
        for name, reason in (("bias", "holds no drunet"), ("other", "holds no drunet"), ("gone", "cannot be read")):
            with self.assertRaises(SystemExit) as end:
                self.widen(self.folder / name, self.folder / "out")
            self.assertIn(reason, end.exception.code)
            self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()
