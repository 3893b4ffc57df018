# SPDX-License-Identifier: BSD-3-Clause
"""jobs/convert_weights.py: wrapped, prefixed and numbered checkpoints become files with the right names."""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from safetensors import safe_open

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])


def convert(source, target, *options):
    command = [sys.executable, str(ROOT / "jobs/convert_weights.py"), str(source), str(target), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class ConvertWeights(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.source = pathlib.Path(self.folder.name) / "weights.pth"
        self.target = pathlib.Path(self.folder.name) / "weights.safetensors"

    def tearDown(self):
        self.folder.cleanup()

    def converted(self, checkpoint, *options):
        torch.save(checkpoint, self.source)
        result = convert(self.source, self.target, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        with safe_open(self.target, "pt") as file:
            return {k: file.get_tensor(k) for k in file.keys()}, file.metadata()

    def test_ordered_dict_with_metadata(self):
        state = collections.OrderedDict(a=torch.randn(3, 2), b=torch.randn(4).double())
        tensors, metadata = self.converted(state, "--network", "drunet", "--sigma", "0", "50/255")
        self.assertEqual(set(tensors), {"a", "b"})
        self.assertTrue(torch.equal(tensors["a"], state["a"]))
        self.assertEqual(tensors["b"].dtype, torch.float32)
        self.assertEqual(metadata["network"], "drunet")
        self.assertAlmostEqual(float(metadata["sigma_range"].split(",")[1]), 50 / 255)

    def test_nested_prefixed_and_counted(self):
        state = {"net.x.weight": torch.ones(2), "net.x.num_batches_tracked": torch.tensor(3), "other": torch.ones(1)}
        tensors, _ = self.converted({"epoch": 3, "state_dict": state}, "--prefix", "net.")
        self.assertEqual(set(tensors), {"x.weight"})
        tensors, _ = self.converted({"params": {"module.y": torch.ones(2)}})
        self.assertEqual(set(tensors), {"y"})

    def test_numbered_dncnn_is_renamed_folded_and_gives_the_same_image(self):
        torch.manual_seed(0)
        layers = [torch.nn.Conv2d(1, 5, 3, padding=1, bias=False), torch.nn.ReLU()]
        for _ in range(2):
            layers += [torch.nn.Conv2d(5, 5, 3, padding=1, bias=False), torch.nn.BatchNorm2d(5), torch.nn.ReLU()]
        net = torch.nn.Sequential(*layers, torch.nn.Conv2d(5, 1, 3, padding=1, bias=False))
        for _ in range(3):
            net(torch.randn(4, 1, 12, 12))  # statistics that are not the neutral ones
        net.eval()
        state = collections.OrderedDict((f"module.dncnn.{k}", v) for k, v in net.state_dict().items())
        tensors, _ = self.converted(state, "--network", "dncnn")
        x = torch.randn(1, 1, 10, 11)
        y = x
        names = ["in_conv", "conv_list.0", "conv_list.1", "out_conv"]
        self.assertEqual(set(tensors), {f"{n}.{p}" for n in names for p in ("weight", "bias")})
        for name in names:
            y = torch.nn.functional.conv2d(y, tensors[name + ".weight"], tensors[name + ".bias"], padding=1)
            y = y if name == "out_conv" else torch.relu(y)
        self.assertLess((x + y - (x - net(x))).abs().max().item(), 1e-6)

    def test_bad_input_is_one_line(self):
        self.source.write_bytes(b"nonsense")
        result = convert(self.source, self.target)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("cannot be read", result.stderr)
        torch.save({"a": torch.ones(1)}, self.source)
        self.assertIn("no key begins with 'b.'", convert(self.source, self.target, "--prefix", "b.").stderr)
        self.assertIn("--sigma", convert(self.source, self.target, "--sigma", "0", "x").stderr)
        self.assertFalse(self.target.exists())


if __name__ == "__main__":
    unittest.main()
