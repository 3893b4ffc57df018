# SPDX-License-Identifier: BSD-3-Clause
"""jobs/convert_weights.py assumes nothing that names and shapes do not show: what is said or tried gives torch's image, all else is refused."""
import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import h5py
import numpy as np
import torch
from foreign import BiasFree, Chain, Dncnn, Drunet, Drunet3d, Ffdnet, stirred, Unet
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "jobs"))
import convert_weights  # noqa: E402
from conversion import evidence  # noqa: E402
from traced_network import Layers  # noqa: E402

PROGRAM = sys.argv.pop(1)
IRCNN = (1, 2, 3, 4, 3, 2, 1)
torch.set_num_threads(1)


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)
        self.source, self.target = self.at / "w.pth", self.at / "w.safetensors"

    def convert(self, content, *options):
        """(exit code, what was said) of the command, in this process: each new one would load torch again."""
        self.target.unlink(missing_ok=True)
        torch.save(content, self.source)
        out, code = io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), unittest.mock.patch("sys.argv", ["convert_weights.py", str(self.source), str(self.target), *options]):
            try:
                convert_weights.main()
            except SystemExit as end:
                code = end.code
        self.assertEqual(self.target.exists(), code == 0, out.getvalue())
        self.assertNotIn("\x1b", out.getvalue())
        if code:
            self.assertEqual((code, len(out.getvalue().splitlines())), (2, 1), out.getvalue())
        return code, out.getvalue()

    def refused(self, content, *options, words):
        code, said = self.convert(content, *options)
        self.assertEqual(code, 2, said)
        for word in words:
            self.assertIn(word, said)
        return said

    def converted(self, content, *options):
        code, said = self.convert(content, *options)
        self.assertEqual(code, 0, said)
        with safe_open(self.target, "pt") as file:
            return {k: file.get_tensor(k) for k in file.keys()}, file.metadata(), said

    def denoised(self, x, sigma, network):
        """By the program."""
        np.save(self.at / "x.npy", x[0].numpy())
        command = [PROGRAM, "denoise", self.at / "x.npy", self.at / "out.h5", "--network", network, "--weights", self.target, "--sigma", str(sigma), "--force"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        with h5py.File(self.at / "out.h5") as file:
            return torch.from_numpy(file["image"][...]).reshape(x.shape)


class Unshown(Case):
    def expect(self, module, network, *options, program=False):
        """Converted with these options, and the image is the module's own."""
        tensors, metadata, _ = self.converted(stirred(module).state_dict(), *options)
        self.assertEqual(metadata["network"], network)
        x = torch.rand(1, 1, 24, 32, generator=torch.Generator().manual_seed(5))
        with torch.no_grad():
            wanted = module(x, 0.1)
        self.assertGreater((wanted - x).norm() / x.norm(), 1e-3, "the network does nothing")
        if program or network != "traced":
            got = self.denoised(x, 0.1, network)
        else:
            import json
            layers = Layers(1)
            layers.nodes = json.loads(metadata["layers"])
            layers.tensors = [{part: tensors[node[part]] for part in ("weight", "bias") if part in node} for node in layers.nodes]
            got = layers.evaluate(x, 0.1)
        self.assertLess((got - wanted).norm() / wanted.norm(), 1e-5)

    def test_random_weights_are_no_evidence_so_the_facts_are_asked_for(self):
        for module, facts in ((Chain(), ("residual", "activation", "padding")), (Chain(IRCNN), ("dilation", "--network dncnn or ircnn")), (Chain(level=True, residual="none"), ("--network fdncnn",)),
                              (Chain(level=True, moved=True, residual="none"), ("--network ffdnet",)), (Chain(eps=1e-4), ("--norm batch:1e-5|batch:1e-4",)), (Ffdnet(), ("residual", "norm none|instance")),
                              (Unet(), ("residual", "skips", "padding")), (Unet(norm=nn.BatchNorm2d), ("batch:1e-5|biasfree:1e-5",))):
            self.refused(module.state_dict(), words=(*facts, "names and shapes do not show", "torch.jit.script"))

    def test_networks_of_volumes_are_known_by_their_names(self):
        for blocks in (1, 2):
            module = Drunet3d(blocks).eval()
            _, metadata, said = self.converted(module.state_dict())
            self.assertEqual((metadata["network"], metadata["blocks"], metadata["widths"]), ("drunet3d", str(blocks), "4,6,8"))
            self.assertIn("not confirmed", said)
            x = torch.rand(1, 1, 8, 12, 16)
            with torch.no_grad():
                wanted = module(x, 0.1)
            self.assertLess((self.denoised(x, 0.1, "drunet3d") - wanted).norm() / wanted.norm(), 1e-5)
        self.refused(module.state_dict(), "--activation", "elu", words=("it has relu",))
        self.refused(module.state_dict() | {"m_more.weight": torch.zeros(1, 1, 3, 3, 3)}, words=("1 tensors are of no layer",))
        chain = Dncnn()
        volume = {k: v[:, :, None].repeat(1, 1, 3, 1, 1) if v.ndim == 4 else v for k, v in chain.state_dict().items()}
        self.assertEqual(self.converted(volume)[1], {"network": "dncnn3d", "channels": "1", "widths": "8", "depth": "5", "residual": "1"})

    def test_what_is_said_gives_the_modules_image(self):
        self.expect(Chain(IRCNN), "traced", "--network", "ircnn", program=True)
        self.expect(Unet(residual="none"), "unet", "--network", "unet", "--residual", "none")
        self.expect(Chain(eps=1e-3), "dncnn", "--network", "dncnn", "--norm", "batch:1e-3")
        self.expect(Ffdnet(norm=nn.BatchNorm2d, bias=False), "ffdnet", "--network", "ffdnet")
        self.expect(Drunet(blocks=1), "drunet")
        self.expect(Dncnn(bias=False), "dncnn")

    def test_so_do_the_lists_of_layers(self):
        self.expect(Chain(residual="add", activation=lambda: nn.LeakyReLU(0.3)), "traced", "--network", "dncnn", "--residual", "add", "--activation", "leaky:0.3")
        self.expect(Chain(activation=lambda: nn.PReLU(8, 0.3)), "traced", "--residual", "subtract", "--dilation", "1", "--padding", "zeros")
        self.expect(Chain((1, 2, 1), activation=nn.ELU), "traced", "--network", "dncnn", "--dilation", "1,2,1", "--activation", "elu")
        self.expect(Chain(level=True, residual="none"), "traced", "--network", "fdncnn")
        self.expect(Chain(level=True, moved=True, residual="subtract"), "traced", "--network", "ffdnet", "--residual", "subtract")
        self.expect(Ffdnet(residual="add"), "traced", "--network", "ffdnet", "--residual", "add")
        self.expect(Unet(skips=False), "traced", "--network", "unet", "--skips", "none")
        self.expect(Drunet(activation=nn.ELU()), "traced", "--activation", "elu")

    def test_norms_of_another_kind_are_written_as_tesseras(self):
        module = stirred(Unet(norm=lambda width: BiasFree(width, eps=0.03)))
        tensors, _, _ = self.converted(module.state_dict(), "--network", "unet", "--norm", "biasfree:0.03")
        y = torch.randn(1, 6, 5, 5)
        norm = {part: tensors[f"Conv1.1.{part}"] for part in ("running_mean", "running_var", "weight", "bias")}
        self.assertLess((nn.functional.batch_norm(y, *norm.values()) - module.Conv1[1](y)).abs().max(), 1e-5)

    def test_what_tessera_has_not_is_refused(self):
        for module, options, words in ((Chain(padding="circular"), ("--network", "dncnn", "--padding", "circular"), ("padding circular", "pad with zeros")),
                                       (Ffdnet(norm=nn.InstanceNorm2d), ("--residual", "none", "--norm", "instance"), ("instance norms",)),
                                       (Chain(activation=nn.SiLU), ("--network", "dncnn", "--activation", "silu"), ("activation silu",)),
                                       (Drunet(), ("--network", "gsdrunet", "--step", "0.5"), ("step 0.5", "no such gradient step"))):
            self.refused(module.state_dict(), *options, words=words)
        for options, words in ((("--activation", "tanh"), ("--activation tanh", "--help")), (("--network", "unet"), ("a chain of 5 convolutions", "leave --network away")), (("--skips", "none"), ("no such choice",)),
                               (("--network", "dncnn", "--dilation", "1,2"), ("5 convolutions", "correct --dilation")), (("--sigma", "50", "25"), ("rising order",)), (("--sigma", "0", "1/0"), ("--sigma",))):
            self.refused(Chain().state_dict(), *options, words=words)

    def test_a_trial_tells_what_trained_weights_are_and_contradicts(self):
        net = Chain(IRCNN, width=12)
        clean = evidence.scenes(1, 8)[:, :, 8:40, 8:40]
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(300):
            loss = (net(clean + 0.098 * torch.randn_like(clean), 0) - clean).square().mean()
            optimizer.zero_grad(), loss.backward(), optimizer.step()
        found = evidence.best(self.network(net), {}, None)
        self.assertEqual({fact: found.facts[fact] for fact in ("residual", "dilation", "activation")}, {"residual": "subtract", "dilation": "1,2,3,4,3,2,1", "activation": "relu"})
        self.assertTrue(found.denoises)
        self.refused(net.state_dict(), "--network", "dncnn", words=("dB better with dilation 1,2,3,4,3,2,1 than with dilation 1",))
        self.refused(net.state_dict(), "--network", "ircnn", "--residual", "add", words=("dB better with residual subtract",))

    def network(self, module):
        from conversion import networks
        return networks.identify({k: v.detach() for k, v in module.state_dict().items()}, None)

    def test_shipped_weights_show_themselves(self):
        with safe_open(ROOT / "data/weights/drunet_small_gray.safetensors", "pt") as file:
            state = {k: file.get_tensor(k).half() for k in file.keys()}
        _, metadata, said = self.converted(state)
        self.assertEqual((metadata["network"], metadata["blocks"]), ("drunet", "1"))
        self.assertIn("dB better than smoothing", said)
        self.assertIn("written in float32 (it had float16)", said)
        self.refused(state, "--activation", "elu", words=("dB better with activation relu than with activation elu",))


class Wrapped(Case):
    def setUp(self):
        super().setUp()
        nothing = unittest.mock.patch.object(evidence, "best", lambda _, expected, __: evidence.Finding(expected, -1, False, [], 0))  # a trial takes its time
        nothing.start()
        self.addCleanup(nothing.stop)

    def test_known_wrappers_and_counters_go(self):
        net = Drunet()
        state = net.state_dict()
        plain, _, _ = self.converted(state)
        under = lambda prefix: {prefix + k: v for k, v in state.items()}  # noqa: E731
        for content in (under("module."), under("_orig_mod."), under("module._orig_mod."), under("module.module."), {"epoch": 3, "state_dict": under("model.")}, under("net.denoiser."),
                        {"model": under("model._orig_mod."), "hyper_parameters": argparse.Namespace(lr=1)}, {"params_ema": state}, {"a": {"b": {"generator": state}}},
                        torch.optim.swa_utils.AveragedModel(net).state_dict(), {**state, "total_ops": torch.zeros(1), "m_head.total_params": torch.zeros(1)},
                        {"state_dict": state, "optimizer": {"state": {"m": {"exp_avg": torch.ones(3)}}}}, {"state_dict": state, "ema": dict(state)},
                        {**under("model."), "loss.vgg.weight": torch.ones(3)}, {k: v.double() for k, v in state.items()}):
            tensors, metadata, said = self.converted(content)
            self.assertEqual(metadata["network"], "drunet")
            self.assertTrue(tensors.keys() == plain.keys() and all(torch.equal(tensors[k], plain[k]) for k in plain), said)
        self.assertIn("it had float64", said)
        self.assertEqual(self.converted({"model": {"params": {f"student_grad.model.{k}": v for k, v in state.items()}}})[1]["network"], "gsdrunet")

    def test_two_sets_of_weights_are_asked_for(self):
        state = Drunet().state_dict()
        other = {k: v + 0.1 for k, v in state.items()}
        for content, names in (({"state_dict": other, "state_dict_ema": state}, ("state_dict", "--entry state_dict_ema")), ({"params": other, "params_ema": state}, ("--entry params_ema",))):
            said = self.refused(content, words=("2 sets of weights", *names))
            tensors, _, _ = self.converted(content, "--entry", said.split("--entry ")[1].split()[0])
            self.assertTrue(torch.equal(tensors["m_head.weight"], state["m_head.weight"]))
        self.refused({"params": state, "params_ema": other}, "--entry", "ema", words=("no entry ema", "params, params_ema"))
        both = {**{f"model.{k}": v for k, v in other.items()}, **{f"ema_model.{k}": v for k, v in state.items()}}
        self.refused(both, words=("2 networks, under ema_model, model", "--prefix ema_model."))
        tensors, _, _ = self.converted(both, "--prefix", "ema_model.")
        self.assertTrue(torch.equal(tensors["m_head.weight"], state["m_head.weight"]))

    def test_what_holds_no_known_network_is_refused(self):
        state = Drunet().state_dict()
        bad = {"nan": state["m_tail.weight"] * float("nan"), "int": state["m_tail.weight"].to(torch.int8), "meta": state["m_tail.weight"].to("meta"), "sparse": torch.ones(3, 3).to_sparse(),
               "f8": state["m_tail.weight"].to(torch.float8_e4m3fn)}
        for kind, word in (("nan", "infinite or not-a-number"), ("int", "is int8"), ("meta", "device meta"), ("sparse", "is sparse"), ("f8", "eight bits")):
            self.refused({**state, "m_tail.weight": bad[kind]}, words=("m_tail.weight", word))
        shapes = dict(state)
        shapes["m_down1.2.weight"] = torch.ones(8, 6, 4, 4)
        missing = {k: v for k, v in state.items() if k != "m_up1.0.weight"}
        for content, words in ((Drunet(), ("foreign.Drunet", "state_dict()")), ({"a.weight": torch.ones(3), "b.weight": torch.ones(3)}, ("begin with a, b", "--prefix")), ({"x": torch.ones(2)}, ("keys are x",)), (torch.ones(3), ("holds a Tensor",)),
                               ({"epoch": 3}, ("no tensors",)), ({**state, "m_extra.weight": torch.ones(1)}, ("m_extra.weight",)), (missing, ("m_up1.0.weight is missing",)), (shapes, ("do not fit",)),
                               ({f"dncnn.{i}.weight_orig": torch.ones(1, 1, 3, 3) for i in (0, 2)}, ("weight_orig",)),
                               ({"model.0.weight": torch.ones(8, 7, 3, 3), "model.2.weight": torch.ones(1, 8, 3, 3)}, ("takes 7 channels",))):
            self.refused(content, words=words)
        self.source.unlink()
        for content, words in ((b"", "cannot be read"), (b"nonsense", "cannot be read"), (b"PK\x03\x04" + bytes(50), "cannot be read")):
            with unittest.mock.patch.object(torch, "save", lambda _, path, content=content: path.write_bytes(content)):
                self.refused(None, words=(words,))

    def test_safetensors_of_others_with_a_prefix(self):
        save_file({f"net.{k}": v for k, v in Drunet().state_dict().items()}, self.source)
        with unittest.mock.patch.object(torch, "save", lambda *_: None):
            self.assertEqual(self.converted(None)[1]["network"], "drunet")


class Program(Case):
    """What tessera itself says of files that nobody converted."""

    def refusal(self, network="drunet", name=None):
        np.save(self.at / "x.npy", np.zeros((1, 16, 16), np.float32))
        command = [PROGRAM, "denoise", "x.npy", "out.h5", "--network", network, "--weights", name or self.target.name, "--sigma", "0.1", "--force"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.at)
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr

    def test_checkpoints_are_named_with_the_command(self):
        torch.save(Drunet().state_dict(), self.source)
        self.assertIn("zip archive", said := self.refusal(name="w.pth"))
        self.assertIn("jobs/convert_weights.py w.pth w.safetensors", said)
        torch.save(Drunet().state_dict(), self.target, _use_new_zipfile_serialization=False)
        self.assertIn("pickle", self.refusal())

    def test_a_file_that_does_not_say_its_residual_is_refused(self):
        save_file(Unet().state_dict(), self.target)
        self.assertIn("does not say whether", said := self.refusal("unet"))
        self.assertIn("jobs/convert_weights.py w.safetensors", said)


class Commands(unittest.TestCase):
    def test_a_python_without_torch_says_so_in_one_line(self):
        # Isolated and without site packages, where the project's Python is not to be found either.
        with tempfile.TemporaryDirectory() as folder:
            for name in ("convert_weights.py", "average_weights.py", "widen_weights.py", "own_python.py"):
                (pathlib.Path(folder) / "jobs").mkdir(exist_ok=True)
                (pathlib.Path(folder) / "jobs" / name).write_text((ROOT / "jobs" / name).read_text())
            for name in ("convert_weights.py", "average_weights.py", "widen_weights.py"):
                result = subprocess.run([sys.executable, "-S", pathlib.Path(folder) / "jobs" / name], capture_output=True, text=True, check=False)
                self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
                self.assertIn(".venv/bin/python", result.stderr)


if __name__ == "__main__":
    unittest.main()
