# SPDX-License-Identifier: BSD-3-Clause
"""jobs/convert_weights.py: wrapped, prefixed and numbered checkpoints, and Flax models, become files with the right names."""
import collections
import contextlib
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import torch
from foreign import Drunet
from safetensors import safe_open
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
os.umask(UMASK := os.umask(0o022))
sys.path.insert(0, str(ROOT / "jobs"))
import convert_weights  # noqa: E402
import traced_network  # noqa: E402


SCRIPT = str(ROOT / "jobs/convert_weights.py")


def convert(source, target, *options):
    """What the command does, in this process: each new one would load torch again."""
    result = subprocess.CompletedProcess([SCRIPT, str(source), str(target), *options], 0)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), unittest.mock.patch("sys.argv", result.args):
        try:
            convert_weights.main()
        except SystemExit as end:
            result.returncode = end.code
    result.stdout, result.stderr = out.getvalue(), err.getvalue()
    return result


def packed(value):
    """MessagePack of nested dictionaries of tensors, as Flax writes them (long forms where there is a choice)."""
    if isinstance(value, dict):
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(packed(k) + packed(v) for k, v in value.items())
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.").encode()
        shape = b"".join(b"\xcd" + struct.pack(">H", n) for n in value.shape)
        array = (b"\x93" + bytes([0x90 + value.ndim]) + shape + bytes([0xa0 + len(name)]) + name
                 + b"\xc6" + struct.pack(">I", value.numel() * value.element_size()) + value.contiguous().numpy().tobytes())
        return b"\xc9" + struct.pack(">I", len(array)) + b"\x01" + array
    return b"\xd9" + bytes([len(value)]) + value.encode()


def flax_dncnn(images=1, biased=False):
    """Variables of SCICO's DnCNN with five features and two blocks; statistics that are not the neutral ones."""
    params = {"conv_start": {"kernel": torch.randn(3, 3, images, 5)}, "conv_end": {"kernel": torch.randn(3, 3, 5, images)}}
    moments = {}
    for i in range(2):
        name = f"ConvBNBlock_{i}"
        params[name] = {"Conv_0": {"kernel": torch.randn(3, 3, 5, 5) / 5}, "BatchNorm_0": {"scale": torch.rand(5) + 0.5, "bias": torch.randn(5)}}
        moments[name] = {"BatchNorm_0": {"mean": torch.randn(5), "var": torch.rand(5) + 0.5}}
    if biased:
        for block in params.values():
            conv = block.get("Conv_0", block)
            conv["bias"] = torch.randn(conv["kernel"].shape[3])
    return {"params": params, "batch_stats": moments}


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
        self.assertEqual(os.stat(self.target).st_mode & 0o777, 0o666 & ~UMASK, "for those whom the umask lets read it")
        with safe_open(self.target, "pt") as file:
            return {k: file.get_tensor(k) for k in file.keys()}, file.metadata()

    def test_ordered_dict_with_metadata(self):
        state = Drunet().state_dict()
        self.assertIsInstance(state, collections.OrderedDict)
        tensors, metadata = self.converted({**state, "m_tail.weight": state["m_tail.weight"].double()}, "--network", "drunet", "--sigma", "0", "50/255")
        self.assertEqual(set(tensors), set(state))
        self.assertTrue(torch.equal(tensors["m_head.weight"], state["m_head.weight"]))
        self.assertEqual(tensors["m_tail.weight"].dtype, torch.float32)
        self.assertEqual(metadata["network"], "drunet")
        self.assertAlmostEqual(float(metadata["sigma_range"].split(",")[1]), 50 / 255)

    def test_the_command_itself(self):
        torch.save(Drunet().state_dict(), self.source)
        for options, code, said in ((["--network", "drunet"], 0, ""), (["--prefix", "b."], 2, "convert_weights.py: ")):
            result = subprocess.run([sys.executable, SCRIPT, self.source, self.target, *options], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(said, result.stderr)

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
        tensors, _ = self.converted(state, "--network", "dncnn", "--norm", "batch:1e-5")
        x = torch.randn(1, 1, 10, 11)
        y = x
        names = ["in_conv", "conv_list.0", "conv_list.1", "out_conv"]
        self.assertEqual(set(tensors), {f"{n}.{p}" for n in names for p in ("weight", "bias")})
        for name in names:
            y = torch.nn.functional.conv2d(y, tensors[name + ".weight"], tensors[name + ".bias"], padding=1)
            y = y if name == "out_conv" else torch.relu(y)
        self.assertLess((x + y - (x - net(x))).abs().max().item(), 1e-6)

    def ffdnet(self, x, sigma, tensors):
        """tessera's graph, by torch."""
        f = torch.nn.functional
        y = torch.cat([x, torch.full_like(x[:, :1], sigma)], dim=1)
        y = f.conv2d(y, tensors["unshuffle.weight"], stride=2)
        blocks = len({k.split(".")[1] for k in tensors if k.startswith("blocks.")})
        for i in range(blocks - 1):
            y = torch.relu(f.conv2d(y, tensors[f"blocks.{i}.0.weight"], tensors[f"blocks.{i}.0.bias"], padding=1))
        y = f.conv2d(y, tensors[f"blocks.{blocks - 1}.weight"], tensors[f"blocks.{blocks - 1}.bias"], padding=1)
        return f.conv_transpose2d(y, tensors["shuffle.weight"], stride=2)

    def test_ffdnets_give_the_same_image(self):
        torch.manual_seed(1)
        f = torch.nn.functional
        for channels in (1, 3):
            x = torch.randn(1, channels, 8, 10)
            moved = f.pixel_unshuffle(x, 2)
            # KAIR: the noise level is one channel beside the moved pixels.
            net = torch.nn.Sequential(torch.nn.Conv2d(4 * channels + 1, 6, 3, padding=1), torch.nn.ReLU(),
                                      torch.nn.Conv2d(6, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(6, 4 * channels, 3, padding=1))
            tensors, metadata = self.converted({f"model.{k}": v for k, v in net.state_dict().items()}, "--network", "ffdnet")
            self.assertEqual(metadata["network"], "ffdnet")
            wanted = f.pixel_shuffle(net(torch.cat([moved, torch.full_like(moved[:, :1], 0.1)], dim=1)), 2)
            self.assertLess((self.ffdnet(x, 0.1, tensors) - wanted).abs().max().item(), 1e-5)
            # deepinv: the map of the noise level is moved too; the last layer may have no bias.
            first, inner, last = (torch.nn.Conv2d(a, b, 3, padding=1, bias=bias) for a, b, bias in ((4 * channels + 4, 6, True), (6, 6, True), (6, 4 * channels, False)))
            state = {f"blocks.0.0.{k}": v for k, v in first.state_dict().items()} | {f"blocks.1.0.{k}": v for k, v in inner.state_dict().items()}
            tensors, metadata = self.converted(state | {"blocks.2.weight": last.weight.detach()}, "--network", "ffdnet")
            self.assertEqual(metadata["network"], "ffdnet")
            moved = f.pixel_unshuffle(torch.cat([x, torch.full_like(x[:, :1], 0.1)], dim=1), 2)
            wanted = f.pixel_shuffle(last(torch.relu(inner(torch.relu(first(moved))))), 2)
            self.assertLess((self.ffdnet(x, 0.1, tensors) - wanted).abs().max().item(), 1e-5)

    def test_restormers_moves_are_those_of_torch(self):
        f = torch.nn.functional
        whole = load_file(ROOT / "tests/reference/restormer.safetensors")
        state = {k: v for k, v in whole.items() if ".body.1." not in k}
        self.assertLess(len(state), len(whole))
        tensors, metadata = self.converted({"params": state})
        self.assertEqual(metadata["network"], "restormer")
        self.assertTrue(tensors.keys() == whole.keys() and all(torch.equal(tensors[k], whole[k].float()) for k in whole))
        fine, coarse = torch.randn(1, 2, 6, 8), torch.randn(1, 32, 3, 4)
        self.assertTrue(torch.equal(f.conv2d(fine, tensors["down1_2.body.1.weight"], stride=2), f.pixel_unshuffle(fine, 2)))
        self.assertTrue(torch.equal(f.conv_transpose2d(coarse, tensors["up3_2.body.1.weight"], stride=2), f.pixel_shuffle(coarse, 2)))

    def test_scunets_matrices_are_cut_as_its_graph_reads_them(self):
        whole = load_file(ROOT / "tests/reference/scunet.safetensors")
        state = {}  # as its authors name them
        for key, value in whole.items():
            layer, half, part = key.rsplit(".", 2)
            if half in ("conv", "trans") and layer.endswith(("conv1_1", "conv1_2")):
                other = whole.get(f"{layer}.trans.{part}" if half == "conv" else f"{layer}.conv.{part}")
                if half == "conv":
                    state[f"{layer}.{part}"] = torch.cat([value, other], 0 if layer.endswith("conv1_1") else 1)
                elif other is None:
                    state[f"{layer}.{part}"] = value
            elif part == "relative_position_params":
                state[key] = value[:, 0]
            elif re.search(r"msa\.(embedding_layer|linear)\.weight|mlp\.\d\.weight", key):
                state[key] = value[:, :, 0, 0]
            else:
                state[key] = value
        self.assertLess(len(state), len(whole))
        tensors, metadata = self.converted(state)
        self.assertEqual(metadata["network"], "scunet")
        self.assertTrue(tensors.keys() == whole.keys() and all(torch.equal(tensors[k], whole[k].float()) for k in whole))

    def test_flax_dncnn_gives_the_same_image(self):
        for biased in (False, True):
            with self.subTest(biased=biased):
                self.flax_dncnn_gives_the_same_image(biased)

    def flax_dncnn_gives_the_same_image(self, biased):
        torch.manual_seed(0)
        tree = flax_dncnn(biased=biased)
        self.source.write_bytes(packed(tree))
        result = convert(self.source, self.target, "--network", "dncnn", "--sigma", "0.1", "0.1")
        self.assertEqual(result.returncode, 0, result.stderr)
        with safe_open(self.target, "pt") as file:
            tensors = {k: file.get_tensor(k) for k in file.keys()}
        conv = torch.nn.functional.conv2d
        x = torch.randn(1, 1, 9, 12)
        y = x
        for name, block in tree["params"].items():  # by Flax's definition: (rows, columns, in, out)
            if name.startswith("ConvBN"):
                y = conv(y, block["Conv_0"]["kernel"].permute(3, 2, 0, 1), block["Conv_0"].get("bias"), padding=1)
                norm, moment = block["BatchNorm_0"], tree["batch_stats"][name]["BatchNorm_0"]
                y = torch.nn.functional.batch_norm(y, moment["mean"], moment["var"], norm["scale"], norm["bias"], eps=1e-5)
                y = torch.relu(y)
            elif name == "conv_start":
                y = torch.relu(conv(y, block["kernel"].permute(3, 2, 0, 1), block.get("bias"), padding=1))
        end = tree["params"]["conv_end"]
        wanted = x - conv(y, end["kernel"].permute(3, 2, 0, 1), end.get("bias"), padding=1)
        names = ["in_conv", "conv_list.0", "conv_list.1", "out_conv"]
        self.assertEqual(set(tensors), {f"{n}.{p}" for n in names for p in ("weight", "bias")})
        y = x
        for name in names:
            y = conv(y, tensors[name + ".weight"], tensors[name + ".bias"], padding=1)
            y = y if name == "out_conv" else torch.relu(y)
        self.assertLess((x + y - wanted).abs().max().item(), 1e-6 * wanted.abs().max().item())

    def test_other_flax_models_are_refused(self):
        sloped = flax_dncnn()
        sloped["params"]["ConvBNBlock_1"]["PReLU_0"] = {"negative_slope": torch.ones(1)}
        for content, word in ((packed(sloped), "PReLU_0"), (packed(flax_dncnn(2)), "noise level as a channel"), (packed({"params": {"Dense_0": {}}}), "Dense_0"),
                              (packed(flax_dncnn())[:-8], "ends too early"), (packed({"step": "1"}), "no parameters")):
            self.source.write_bytes(content)
            result = convert(self.source, self.target)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
            self.assertIn(word, result.stderr)

    def test_a_safetensors_file_is_one_whatever_the_length_of_its_header(self):
        state, lengths = Drunet().state_dict(), set()
        for pad in range(0, 256, 8):  # the format fills a header up to eight bytes
            save_file(state, self.source, metadata={"pad": "x" * pad})
            first = self.source.read_bytes()[0]
            lengths.add(first)
            if first in (0x80, 0x88):  # as pickles and maps of MessagePack begin
                result = convert(self.source, self.target, "--network", "drunet")
                self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLessEqual({0x80, 0x88}, lengths)
        cut = self.source.read_bytes()[:600]  # within its header
        for first in (0x80, 0x88):
            self.source.write_bytes(bytes([first]) + cut[1:])
            result = convert(self.source, self.target)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
            self.assertIn("cannot be read", result.stderr)

    def test_bad_input_is_one_line(self):
        self.source.write_bytes(b"nonsense")
        self.assertIn("cannot be read", convert(self.source, self.target).stderr)
        torch.save(Drunet().state_dict(), self.source)
        self.assertIn("no key begins with 'b.'", convert(self.source, self.target, "--prefix", "b.").stderr)
        self.assertIn("--sigma", convert(self.source, self.target, "--sigma", "0", "x").stderr)
        self.assertIn("cannot be written", convert(self.source, self.source / "below").stderr)
        self.assertFalse(self.target.exists())


class Strided(torch.nn.Module):
    """What tessera has no layer for and the converter puts together."""

    def __init__(self):
        super().__init__()
        conv = torch.nn.Conv2d
        self.first, self.norm, self.own = conv(2, 8, 3, padding=1), torch.nn.BatchNorm2d(8), conv(8, 8, 5, padding=2, groups=8)
        self.second, self.third = conv(8, 12, 3, stride=2, padding=1), conv(12, 12, 4, stride=2, padding=1)
        self.up, self.last_up = torch.nn.ConvTranspose2d(12, 12, 4, stride=2, padding=1), torch.nn.ConvTranspose2d(24, 8, 2, 2)
        self.groups, self.slope, self.end = conv(8, 8, 3, padding=2, dilation=2, groups=4), torch.nn.PReLU(8), conv(20, 2, 1)

    def forward(self, x):
        f = torch.nn.functional
        a = f.leaky_relu(self.norm(self.first(2 * x - 1)), 0.2)
        b = f.elu(self.second(a))
        u = self.slope(self.last_up(torch.cat([self.up(f.gelu(self.third(b))), b], 1)))
        u += self.groups(u)
        c, d = self.own(u).chunk(2, 1)
        w = torch.cat([f.relu(c), d[:, 1:], -a], 1)[:, :-1]
        w = torch.cat([w, f.pixel_shuffle(f.pixel_unshuffle(u, 2), 2)[:, 3:6], a[:, :3]], 1)
        h = f.interpolate(f.avg_pool2d(w, 2), scale_factor=2.0) - 0.5 * f.interpolate(f.max_pool2d(w, 2), scale_factor=2.0)
        return (self.end(h + w) + 1) / 2


class Leveled(torch.nn.Module):
    """The noise level beside moved pixels, 255 times as large."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Conv2d(13, 12, 3, padding=1)

    def forward(self, x, sigma):
        f = torch.nn.functional
        y = f.pixel_unshuffle(x, 2)
        level = 255 * sigma.view(-1, 1, 1, 1).expand(y.shape[0], 1, y.shape[2], y.shape[3])
        return x - f.pixel_shuffle(self.body(torch.cat([y, level], 1)), 2)


class Number(torch.nn.Module):
    def forward(self, x, sigma: float):
        return x + torch.full_like(x[:, :1], sigma)


class Beside(torch.nn.Module):
    """The level is a channel of the one argument."""

    def forward(self, x):
        return x[:, :1] - 0.5 * x[:, 1:]


class Does(torch.nn.Module):
    """Something on its one image, which no list does."""

    def __init__(self, what: str):
        super().__init__()
        self.what, self.conv = what, torch.nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x):
        f = torch.nn.functional
        if self.what == "mean":
            return x - x.mean((2, 3), keepdim=True)
        if self.what == "largest":
            return x / x.max()
        if self.what == "reflect":
            return f.pad(x, [1, 1, 1, 1], mode="reflect")[:, :, 1:-1, 1:-1]
        if self.what == "size":
            return x * (x.size(2) / 64.0)
        if self.what == "content":
            return x * 2 if bool(x[0, 0, 0, 0] > 0.5) else x * 3
        if self.what == "product":
            return x * self.conv(x)
        if self.what == "saturates":
            return torch.sigmoid(x)
        if self.what == "pads":  # to multiples of 8, by itself
            h, w = x.size(2), x.size(3)
            return self.conv(f.pad(x, [0, -w % 8, 0, -h % 8], mode="replicate"))[:, :, :h, :w]
        if self.what == "raises":
            assert x.size(2) % 8 == 0
            return self.conv(x)
        if self.what == "smaller":
            return f.interpolate(f.avg_pool2d(x, 4), scale_factor=4.0)
        return x[:, :, ::2]


class Clamped(torch.nn.Module):
    """A noise level that ends at 50/255."""

    def forward(self, x, sigma):
        return x + sigma.clamp(0, 50 / 255).view(-1, 1, 1, 1).expand(x.shape[0], 1, x.shape[2], x.shape[3])


class Flagged(torch.nn.Module):
    """A flag, and a level that may be left out; the third channel is asserted."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 3, (1, 3), padding=(0, 1))
        self.down = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.up = torch.nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x, sigma: float = 0.1, noise_alone: bool = False):
        assert x.shape[1] == 3
        n = self.conv(torch.cat([x, torch.full_like(x[:, :1], sigma)], 1)) * 0.5 + 0.5
        n = 0.2 * (self.up(self.down(n)) * 0.5 + 0.5) + n.flip(1)[:, [2, 0, 1]]
        return n if noise_alone else x.sub_(0.5) - torch.cat([n[:, ::2], n[:, -2:-1]], 1)


class Mapped(torch.nn.Module):
    """The second argument is the map itself."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x, level):
        assert level.shape[2] == x.shape[2]
        return x - self.conv(torch.cat([x, level], 1))


class TracedModules(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript itself
        torch.manual_seed(0)
        self.folder = tempfile.TemporaryDirectory()
        self.source = pathlib.Path(self.folder.name) / "module.pt"
        self.target = pathlib.Path(self.folder.name) / "traced.safetensors"

    def tearDown(self):
        self.folder.cleanup()

    def converted(self, module, *options):
        for part in module.modules():
            if isinstance(part, torch.nn.BatchNorm2d):  # statistics that are not the neutral ones
                part.running_mean.normal_(), part.running_var.uniform_(0.5, 2)
        torch.jit.script(module.eval()).save(str(self.source))
        result = convert(self.source, self.target, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        with safe_open(self.target, "pt") as file:
            tensors, metadata = {k: file.get_tensor(k) for k in file.keys()}, file.metadata()
        layers = traced_network.Layers(int(metadata["channels"]))
        layers.nodes = json.loads(metadata["layers"])
        layers.tensors = [{part: tensors.pop(node[part]) for part in ("weight", "bias") if part in node} for node in layers.nodes]
        self.assertEqual(tensors, {}, "each is read")
        return layers, metadata

    def equal(self, module, layers, channels, *sigma):
        x = torch.rand(1, channels, 24, 40)
        with torch.no_grad():
            want = module(x, *sigma)
            self.assertLess((layers.evaluate(x, float(sigma[0]) if sigma else 0) - want).abs().max() / want.abs().max(), 1e-5)

    def test_strides_slopes_and_groups_become_layers(self):
        module = Strided()
        layers, metadata = self.converted(module, "--channels", "2", "--sigma", "0", "0.2")
        self.assertEqual((metadata["network"], metadata["channels"]), ("traced", "2"))
        self.assertEqual(metadata["sigma_range"], "0.0,0.2")
        self.assertEqual(layers.alignment(), 4)
        self.equal(module, layers, 2)

    def test_noise_levels_are_found(self):
        module = Leveled()
        layers, _ = self.converted(module)
        self.equal(module, layers, 3, torch.tensor([0.05]))
        self.assertEqual([n["op"] for n in layers.nodes].count("sigma_map"), 1)
        self.equal(module, layers, 3, torch.tensor([0.2]))
        module = Number()
        layers, _ = self.converted(module)
        self.equal(module, layers, 1, 0.05)
        module = Mapped()
        layers, _ = self.converted(module)
        self.equal(lambda x, level: module(x, level.expand_as(x)), layers, 1, torch.full((1, 1, 1, 1), 0.15))
        module = Flagged()
        layers, metadata = self.converted(module)
        self.assertEqual(metadata["channels"], "3")
        self.equal(lambda x, level: module(x.clone(), level), layers, 3, 0.15)
        module = Beside()
        layers, _ = self.converted(module)
        x = torch.rand(1, 1, 8, 8)
        self.assertLess((layers.evaluate(x, 0.3) - (x - 0.15)).abs().max(), 1e-6)

    def test_what_no_list_does_is_refused(self):
        for what, reason in (("mean", "aten.mean"), ("largest", "aten.max"), ("reflect", "aten.reflection_pad2d"), ("size", "give another image"),
                             ("content", "aten."), ("product", "meet in mul"), ("saturates", "aten.sigmoid"), ("smaller", "aten.avg_pool2d"),
                             ("pads", "on 41 x 97 pixels"), ("half", "it maps no picture to a picture (tried with"), ("raises", "the module fails on 41 x 97")):
            torch.jit.script(Does(what).eval()).save(str(self.source))
            with self.assertRaises(traced_network.Refused, msg=what) as refused:
                traced_network.convert(str(self.source))
            self.assertIn(reason, str(refused.exception), what)
        torch.jit.script(Clamped().eval()).save(str(self.source))
        with self.assertRaises(traced_network.Refused) as refused:
            traced_network.convert(str(self.source))
        self.assertIn("sigma 0.9", str(refused.exception))

    @unittest.mock.patch("foreign.level_map", lambda x, level: level.reshape(-1, 1, 1, 1) * torch.ones_like(x[:, :1]))
    def test_other_ranges_and_noise_as_the_output_are_told(self):
        net = Drunet(1, (24, 48, 96, 192)).eval()
        net.load_state_dict({k.replace("m_body.0.", "m_body."): v for k, v in load_file(ROOT / "data/weights/drunet_small_gray.safetensors").items()})
        for taken, words in ((lambda x, s: net(x, s), None), (lambda x, s: net(x, s / 255), "its noise level is one of 0 to 255"),
                             (lambda x, s: x - net(x, s), "its output is the noise, not the image")):
            class Module(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = net

                def forward(self, x, s, taken=taken):
                    return taken(x, s)
            torch.jit.trace(Module(), (torch.rand(1, 1, 32, 32), torch.tensor([0.1])), check_trace=False).save(str(self.source))
            result = convert(self.source, self.target)
            self.assertEqual((result.returncode, words is not None and words not in result.stderr), (2 if words else 0, False), result.stderr)
            self.assertEqual(words is None, "it denoises drawn scenes" in result.stdout, result.stdout)

    def test_options_that_do_not_fit_are_refused(self):
        torch.jit.script(Beside().eval()).save(str(self.source))
        self.assertIn("leave --network", convert(self.source, self.target, "--network", "drunet").stderr)
        result = convert(self.source, self.target, "--channels", "7")
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
        self.assertFalse(self.target.exists())


if __name__ == "__main__":
    unittest.main()
