# SPDX-License-Identifier: BSD-3-Clause
"""TorchScript module -> list of tessera's layers with their weights, for convert_weights.py.

The module is run once on noise while every operation of torch is written down (`record`); each becomes layers of
include/tessera/denoise/graph.hpp, or is refused by name. The list is then compared with the module on pictures of
other sizes, contents and noise levels (`compare`): what depended on those of the first run does not pass.
"""
import json
import sys
import warnings

if __name__ == "__main__":
    sys.exit("traced_network.py: no command (it is a part of jobs/convert_weights.py, which reads TorchScript files) start that one")
import torch
from torch.nn import functional as f
from torch.utils._python_dispatch import TorchDispatchMode

LEVEL = 0.0713  # the noise level of the recorded run

# What makes constants of an image's shape.
MAKERS = {"full_like", "zeros_like", "ones_like", "new_full", "new_zeros", "new_ones", "new_empty", "empty_like"}
# What returns its image as it is, where the shape stays.
SAME = {"detach", "alias", "contiguous", "clone", "_to_copy", "view", "_unsafe_view", "expand", "lift_fresh", "lift_fresh_copy",
        "reshape", "slice", "constant_pad_nd", "replication_pad2d", "reflection_pad2d", "native_dropout", "dropout"}


class Refused(Exception):
    """The module does what no list of layers does."""


def refuse(problem, why, what="export a module of convolutions and pointwise layers, or write the network in C++ (docs/add_a_network.md)"):
    raise Refused(f"{problem} ({why}) {what}")


def moves(channels):
    """The kernel (4 channels, channels, 2, 2) that moves 2x2 pixels into four channels, row by row, or back."""
    kernel = torch.zeros(4 * channels, channels, 2, 2)
    for c in range(channels):
        for k in range(4):
            kernel[4 * c + k, c, k // 2, k % 2] = 1
    return kernel


def corner(channels):
    """The kernel (channels, channels, 2, 2) that takes the upper left one of 2x2 pixels, or puts it there among zeros."""
    kernel = torch.zeros(channels, channels, 2, 2)
    kernel[range(channels), range(channels), 0, 0] = 1
    return kernel


def dense(weight, groups, transposed):
    """The kernel of all channels, of one in groups: zeros elsewhere."""
    if groups == 1:
        return weight
    parts = weight.chunk(groups)
    rows, columns = parts[0].shape[:2]
    kernel = weight.new_zeros(groups * rows, groups * columns, *weight.shape[2:])
    for g, part in enumerate(parts):
        kernel[g * rows:(g + 1) * rows, g * columns:(g + 1) * columns] = part
    return kernel


class Layers:
    """The list as it grows: tessera's nodes, and their tensors beside them."""

    def __init__(self, channels):
        self.nodes = [{"op": "input", "channels": channels}]
        self.tensors = [{}]
        self.channels = [channels]
        self.level = self.features = None

    def add(self, op, inputs, channels, weight=None, bias=None, **more):
        if op != "concat":
            inputs = [self.level_as_features() if i == self.level else i for i in inputs]
        self.nodes.append({"op": op, "inputs": list(inputs), **more})
        if weight is not None:
            self.nodes[-1]["channels"] = channels
        parts = {"weight": weight, "bias": bias}
        self.tensors.append({k: v.detach().double().contiguous().clone() for k, v in parts.items() if v is not None})
        self.channels.append(channels)
        return len(self.nodes) - 1

    def noise_level(self):
        if self.level is None:
            self.level = self.add("sigma_map", [], 1)
            del self.nodes[-1]["inputs"]
        return self.level

    def level_as_features(self):
        """The map as other layers than concat read it."""
        if self.features is None:
            self.features = self.add("concat", [self.level], 1)
        return self.features

    def scaled(self, x, scale, shift=None):
        """scale * x + shift, each a number or one value per channel."""
        count = self.channels[x]
        scale = torch.as_tensor(scale, dtype=torch.float64).reshape(-1).expand(count)
        if shift is not None:
            shift = torch.as_tensor(shift, dtype=torch.float64).reshape(-1).expand(count)
        if shift is None and bool((scale == 1).all()):
            return x
        return self.add("conv", [x], count, scale.reshape(count, 1, 1, 1), shift, kernel=1, depthwise=True)

    def selected(self, x, channels):
        """These channels, in this order."""
        if list(channels) == list(range(self.channels[x])):
            return x
        return self.add("conv", [x], len(channels), torch.eye(self.channels[x])[list(channels), :, None, None], kernel=1)

    def convolution(self, x, weight, bias, stride, padding, dilation, transposed, groups):
        stride, padding, dilation = (list(v) * (3 - len(v)) for v in (stride, padding, dilation))
        if stride[0] != stride[1] or stride[0] not in (1, 2) or (transposed and dilation != [1, 1]):
            refuse(f"a {'transposed ' * transposed}convolution with stride {stride} and dilation {dilation}", "strides 1 and 2 are known, dilations of those that are not transposed")
        weight = weight.detach().double()
        depthwise = {}
        if not transposed and stride[0] == 1 and groups == weight.shape[0] == self.channels[x] and groups > 1:
            groups, depthwise = 1, {"depthwise": True}
        weight = dense(weight, groups, transposed)
        if dilation != [1, 1]:  # zeros between the taps
            wide = weight.new_zeros(*weight.shape[:2], *((k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation)))
            wide[:, :, ::dilation[0], ::dilation[1]] = weight
            weight = wide
        height, width = weight.shape[2:]
        small = stride[0] == 2 and (height, width) == (2, 2) and padding == [0, 0]
        r = max(max(p, k - 1 - p) for k, p in zip((height, width), padding))  # of the odd square that holds it
        top, left = padding
        if transposed:
            inside, out = weight.shape[:2]
            if small:
                return self.add("conv_up", [x], out, weight, bias)
            if stride[0] == 2:  # zeros between the pixels, then a convolution
                x = self.add("conv_up", [x], inside, corner(inside))
            top, left = height - 1 - top, width - 1 - left
            weight = weight.transpose(0, 1).flip(2, 3)
        elif small:
            return self.add("conv_down", [x], weight.shape[0], weight, bias)
        out = weight.shape[0]
        kernel = weight.new_zeros(*weight.shape[:2], 2 * r + 1, 2 * r + 1)
        kernel[:, :, r - top:r - top + height, r - left:r - left + width] = weight
        x = self.add("conv", [x], out, kernel, bias, kernel=2 * r + 1, **depthwise)
        return self.add("conv_down", [x], out, corner(out)) if stride[0] == 2 and not transposed else x

    def simplify(self):
        """Scales behind a convolution go into it; layers that nobody reads go."""
        kept, at = [], {}
        wanted = {len(self.nodes) - 1}
        for i in range(len(self.nodes) - 1, -1, -1):
            if i in wanted:
                wanted.update(self.nodes[i].get("inputs", []))
        readers = [sum(node.get("inputs", []).count(i) for j, node in enumerate(self.nodes) if j in wanted) for i in range(len(self.nodes))]
        for i in sorted(wanted | {0}):
            node, tensors = dict(self.nodes[i]), dict(self.tensors[i])
            before = node.get("inputs", [None])[0]
            scale = node.get("depthwise") and node["kernel"] == 1
            if scale and readers[before] == 1 and self.nodes[before]["op"] in ("conv", "conv_down", "conv_up"):
                into = kept[at[before]][1]
                factor = tensors["weight"].reshape(-1)
                axis = (1, -1, 1, 1) if kept[at[before]][0]["op"] == "conv_up" else (-1, 1, 1, 1)
                into["weight"] = into["weight"] * factor.reshape(axis)
                if "bias" in into or "bias" in tensors:
                    into["bias"] = into.get("bias", 0) * factor + tensors.get("bias", 0)
                at[i] = at[before]
                continue
            if "inputs" in node:
                node["inputs"] = [at[j] for j in node["inputs"]]
            at[i] = len(kept)
            kept.append((node, tensors))
        self.nodes = [node for node, _ in kept]
        self.tensors = [tensors for _, tensors in kept]
        for i, (node, tensors) in enumerate(kept):
            for part in tensors:
                node[part] = f"layers.{i}.{part}"

    def state(self):
        return {node[part]: tensor.float() for node, tensors in zip(self.nodes, self.tensors) for part, tensor in tensors.items()}

    def text(self):
        return json.dumps(self.nodes, separators=(",", ":"))

    def alignment(self):
        levels = []
        for node in self.nodes:
            change = {"conv_down": 1, "max_pool": 1, "conv_up": -1, "upsample": -1}.get(node["op"], 0)
            levels.append(levels[node["inputs"][0]] + change if "inputs" in node else 0)
        return 2 ** max(levels)

    def evaluate(self, image, sigma, padding="zeros"):
        """The list by torch, as src/denoise/networks/evaluate.cpp has it; with another padding, as torch names it."""
        values = []
        for node, tensors in zip(self.nodes, self.tensors):
            op, x = node["op"], [values[i] for i in node.get("inputs", [])]
            w, b = tensors.get("weight"), tensors.get("bias")
            if op == "input":
                y = image
            elif op == "sigma_map":
                y = torch.full_like(image[:, :1], sigma)
            elif op == "conv":
                r = node["kernel"] // 2
                wide = x[0] if padding == "zeros" or r == 0 else f.pad(x[0], [r] * 4, mode=padding)
                y = f.conv2d(wide, w, b, padding=r if padding == "zeros" else 0, groups=len(w) if node.get("depthwise") else 1)
            elif op == "conv_down":
                y = f.conv2d(x[0], w, b, stride=2)
            elif op == "conv_up":
                y = f.conv_transpose2d(x[0], w, b, stride=2)
            elif op == "add":
                y = sum(x[1:], x[0])
            elif op == "subtract":
                y = x[0] - x[1]
            elif op == "concat":
                y = torch.cat(x, 1)
            elif op == "max_pool":
                y = f.max_pool2d(x[0], 2)
            elif op == "upsample":
                y = f.interpolate(x[0], scale_factor=2)
            else:
                y = getattr(f, op)(x[0])
            values.append(y)
        return values[-1]


class Record(TorchDispatchMode):
    """Layers for every operation on what comes of the image."""

    def __init__(self, layers, image, sigma):
        super().__init__()
        self.layers, self.sigma, self.side = layers, sigma, image.shape[2]
        self.of = {id(image): 0}
        self.refused = None  # TorchScript makes an error of its own of what is raised below it
        self.alive = [image]  # so that no identity is used twice

    def node(self, tensor):
        """The layer that a tensor is, a map of the noise level included."""
        if id(tensor) in self.of:
            return self.of[id(tensor)]
        if self.sigma and tensor.ndim == 4 and tensor.numel() and bool((tensor == tensor.flatten()[0]).all()):
            ratio = float(tensor.flatten()[0]) / self.sigma
            one = self.layers.scaled(self.layers.noise_level(), ratio if abs(ratio - 1) > 1e-6 else 1)
            side = self.side
            while side > tensor.shape[2]:  # of a coarser level
                one, side = self.layers.add("conv_down", [one], 1, corner(1)), side // 2
            return one if tensor.shape[1] == 1 else self.layers.add("concat", [one] * tensor.shape[1], tensor.shape[1])
        return refuse("an image of constants is joined with others", "it is no map of the noise level")

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        flat = [v for a in (*args, *kwargs.values()) for v in (a if isinstance(a, (list, tuple)) else [a])]
        reads = any(isinstance(v, torch.Tensor) and id(v) in self.of for v in flat)
        result = operation(*args, **kwargs)
        name = operation.overloadpacket.__name__.rstrip("_")  # in place: the same tensor, another layer
        if not reads or name in MAKERS:
            self.alive.append(result)
            return result
        outs = result if isinstance(result, (list, tuple)) else [result]
        try:
            nodes = self.layer(name, args, kwargs, outs)
        except Refused as refused:
            self.refused = self.refused or refused
            raise
        for tensor, node in zip(outs, nodes):
            self.of[id(tensor)] = node
            self.alive.append(tensor)
        return result

    def pointwise(self, name, args, kwargs):
        """add, sub, mul, div of two images, or of one and constants: a number, or one value per channel."""
        layers, (a, b) = self.layers, args[:2]
        alpha = kwargs.get("alpha", 1)
        known = [isinstance(v, torch.Tensor) and id(v) in self.of for v in (a, b)]
        if name == "rsub":
            a, b, known, name = b, a, known[::-1], "sub"
        if all(known):
            if name not in ("add", "sub") or a.shape != b.shape:
                refuse(f"the images of two layers, {tuple(a.shape)} and {tuple(b.shape)}, meet in {name}",
                       "sums and differences of alike ones are known")
            second = layers.scaled(self.node(b), alpha)
            return layers.add("add" if name == "add" else "subtract", [self.node(a), second], layers.channels[self.node(a)])
        image, constant = (a, b) if known[0] else (b, a)
        constant = torch.as_tensor(constant, dtype=torch.float64)
        count = image.shape[1]
        if constant.numel() not in (1, count) or (constant.numel() > 1 and (constant.ndim < 3 or constant.shape[-3] != count)):
            if constant.ndim == 4 and name in ("add", "sub") and constant.shape == image.shape:
                pair = [self.node(image), self.node(constant)]
                return layers.add("add" if name == "add" else "subtract", pair if known[0] else pair[::-1], count)
            refuse(f"an image meets constants of the shape {tuple(constant.shape)} in {name}", "a number, or one per channel, is known")
        x = self.node(image)
        if self.sigma and bool((constant != 0).any()) and constant.numel() == 1 and abs(float(constant) / self.sigma - 1) < 1e-6:
            refuse(f"{name} with the noise level itself", "tessera gives it as a map beside the image")
        if name == "mul":
            return layers.scaled(x, constant)
        if name == "div" and known[0]:
            return layers.scaled(x, 1 / constant)
        if name == "add":
            return layers.scaled(x, 1, constant * alpha) if known[0] else layers.scaled(x, alpha, constant)
        if name == "sub":
            return layers.scaled(x, 1, -constant * alpha) if known[0] else layers.scaled(x, -alpha, constant)
        return refuse(f"a number is divided by an image in {name}", "no layer does")

    def layer(self, name, args, kwargs, outs):
        layers, x = self.layers, args[0]
        if not isinstance(outs[0], torch.Tensor):
            refuse(f"aten.{name} makes no image of the image", "what depends on the content is no layer")
        shape = tuple(outs[0].shape)
        if name == "cat":
            if (args[1] if len(args) > 1 else kwargs.get("dim", 0)) not in (1, -3):
                refuse("images are joined along another axis", "only channels are")
            parts = [self.node(t) for t in x if t.numel()]
            return [layers.add("concat", parts, sum(layers.channels[p] for p in parts))]
        if name in ("add", "sub", "rsub", "mul", "div"):
            return [self.pointwise(name, args, kwargs)]
        if not (isinstance(x, torch.Tensor) and id(x) in self.of):
            refuse(f"the module calls aten.{name} on several images, or on constants and an image", "tessera has no such layer")
        i = self.node(x)
        count = layers.channels[i]
        if len(shape) != 4 or x.ndim != 4:
            refuse(f"the module calls aten.{name} on {tuple(x.shape)}", "tessera has no such layer")
        if name in ("convolution", "_convolution", "mkldnn_convolution"):
            if name == "mkldnn_convolution":  # input, weight, bias, padding, stride, dilation, groups
                _, weight, bias, padding, stride, dilation, groups = args
                args = (x, weight, bias, stride, padding, dilation, False, [0, 0], groups)
            if any(isinstance(t, torch.Tensor) and id(t) in self.of for t in args[1:3]):
                refuse("a kernel that is computed from the image", "kernels are weights")
            made = layers.convolution(i, *args[1:7], args[8])
            factor = args[3][0] if args[6] else 1 / args[3][0]
            if shape[2:] != tuple(int(s * factor) for s in x.shape[2:]):
                refuse(f"a convolution makes {tuple(x.shape[2:])} pixels {shape[2:]}",
                       "layers keep the size, halve or double it, with zeros around the image", "put the padding into the convolution")
            return [made]
        if "batch_norm" in name:
            weight, bias, mean, var = (None if t is None else t.double() for t in args[1:5])
            eps = args[-1] if isinstance(args[-1], float) else args[7]
            if mean is None or (name == "native_batch_norm" and args[5]):
                refuse("a norm that measures the image", "an instance norm, or a batch norm without statistics or exported for training",
                       "call eval() before the export, or use a network without it")
            scale = 1 / torch.sqrt(var + eps) * (1 if weight is None else weight)
            return [layers.scaled(i, scale, (0 if bias is None else bias) - mean * scale)] + [None] * (len(outs) - 1)
        if name == "relu" or (name == "threshold" and args[1] == args[2] == 0):
            return [layers.add("relu", [i], count)]
        if name in ("leaky_relu", "prelu", "_prelu_kernel"):  # slope x + (1 - slope) relu(x)
            slope = torch.as_tensor(args[1] if len(args) > 1 else 0.01, dtype=torch.float64).reshape(-1).expand(count)
            bent = layers.scaled(layers.add("relu", [i], count), 1 - slope)
            return [layers.add("add", [bent, layers.scaled(i, slope)], count)]
        if name == "elu" and all(a == 1 for a in args[1:]):
            return [layers.add("elu", [i], count)]
        if name == "gelu" and kwargs.get("approximate", "none") == "none":
            return [layers.add("gelu", [i], count)]
        if name == "neg":
            return [layers.scaled(i, -1)]
        halves, doubles = (shape[2] * 2, shape[3] * 2) == tuple(x.shape[2:]), shape[2:] == (x.shape[2] * 2, x.shape[3] * 2)
        if name in ("max_pool2d_with_indices", "max_pool2d") and list(args[1]) == [2, 2] and halves and not any(args[3:4] and args[3]):
            return [layers.add("max_pool", [i], count)] + [None] * (len(outs) - 1)
        if name == "avg_pool2d" and list(args[1]) == [2, 2] and halves:
            return [layers.add("conv_down", [i], count, torch.eye(count)[:, :, None, None].expand(-1, -1, 2, 2) / 4)]
        if name == "upsample_nearest2d" and doubles:
            return [layers.add("upsample", [i], count)]
        if name == "pixel_unshuffle" and args[1] == 2:
            return [layers.add("conv_down", [i], 4 * count, moves(count))]
        if name == "pixel_shuffle" and args[1] == 2:
            return [layers.add("conv_up", [i], count // 4, moves(count // 4))]
        if name == "slice" and (args[1] if len(args) > 1 else 0) == 1:
            first, end, step = (*args[2:5], None, None, None)[:3]
            return [layers.selected(i, range(count)[first:end:step])]
        if name == "flip" and list(args[1]) in ([1], [-3]):
            return [layers.selected(i, range(count)[::-1])]
        if name == "index" and len(args[1]) == 2 and args[1][0] is None and args[1][1].ndim == 1 and not args[1][1].dtype == torch.bool:
            return [layers.selected(i, [int(c) % count for c in args[1][1]])]
        if name in ("split", "split_with_sizes", "chunk") and (args[2] if len(args) > 2 else kwargs.get("dim", 0)) in (1, -3):
            ends = [0]
            for out in outs:
                ends.append(ends[-1] + out.shape[1])
            return [layers.selected(i, range(a, b)) for a, b in zip(ends, ends[1:])]
        if name in SAME and shape == tuple(x.shape):
            return [i] + [None] * (len(outs) - 1)
        return refuse(f"the module calls aten.{name} on {tuple(x.shape)}", "tessera has no such layer")


def ways(module, channels):
    """How it may be called: (channels of the image, function of image and noise level, whether it takes the level)."""
    # Flags keep their defaults; torch would take a tensor for one.
    parameters = [a for a in module.forward.schema.arguments[1:] if not (a.has_default_value() and str(a.type) in ("bool", "int", "str"))]
    wanted = [a for a in parameters if not a.has_default_value()] if len(parameters) > 2 else parameters
    for c in [channels] if channels else (1, 3):
        if len(wanted) == 2 and str(wanted[1].type) in ("float", "number", "Optional[float]"):
            yield c, lambda x, s: module(x, s), True
        elif len(wanted) == 2 and "Tensor" in str(wanted[1].type):
            for shape in ((1,), (1, 1, 1, 1), ()):
                yield c, lambda x, s, shape=shape: module(x, torch.full(shape, s, dtype=x.dtype)), True
            yield c, lambda x, s: module(x, torch.full_like(x[:, :1], s)), True
        elif len(wanted) == 1:
            yield c, lambda x, s: module(x), False
            yield c, lambda x, s: module(torch.cat([x, torch.full_like(x[:, :1], s)], 1)), True


def last_line(error):
    """What went wrong. Refused where a device did that is not here."""
    line = str(error).strip().splitlines()[-1]
    if "CUDA" in line or "NVIDIA" in line:
        refuse("the module puts tensors on a GPU", f"it was traced there, and the device is written into it; here: {line}", "save it anew from the CPU: torch.jit.trace(module.cpu(), ...)")
    return line


@torch.no_grad()
def convert(path, channels=None):
    """(channels, Layers) of a TorchScript file. Refused where there is no list."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript itself; people have such files
        module = torch.jit.load(path, map_location="cpu").eval().double()
    random = torch.Generator().manual_seed(0)

    def picture(count, height, width):
        return torch.rand(1, count, height, width, generator=random, dtype=torch.float64)

    found, failed, other = None, "", ""
    for count, call, leveled in ways(module, channels):
        try:
            out = call(picture(count, 64, 64), LEVEL)
        except (RuntimeError, torch.jit.Error) as error:  # of shapes, or the module's own
            failed = last_line(error)
            continue
        if isinstance(out, torch.Tensor) and out.shape == (1, count, 64, 64):
            found = count, call, leveled
            break
        other = other or f"(1, {count}, 64, 64) became " + (str(tuple(out.shape)) if isinstance(out, torch.Tensor) else f"a {type(out).__name__}")
    if found is None:
        refuse("it maps no picture to a picture", f"tried with C x 64 x 64 pixels in double precision, alone and with a noise level, C of {channels or '1 and 3'}: {other or failed}",
               "give --channels, or save a module of image and noise level, not frozen and without casts")
    count, call, leveled = found
    layers = Layers(count)
    image = picture(count, 64, 64)
    record = Record(layers, image, LEVEL if leveled else 0.0)
    try:
        with record:
            out = call(image, LEVEL)
    except (RuntimeError, torch.jit.Error) as error:
        raise (record.refused or error) from None
    if id(out) not in record.of:
        refuse("its result does not depend on the image", "nothing to list")
    if record.of[id(out)] != len(layers.nodes) - 1 or len(layers.nodes) == 1:
        layers.scaled(record.of[id(out)], 1, 0)  # the list ends with its result
    layers.simplify()
    compare(layers, call, picture, count)
    return count, layers


def compare(layers, call, picture, count):
    """Refused where the list gives another image than the module."""
    a = layers.alignment()  # times odd numbers: what the module itself pads to a multiple of more shows
    for height, width, sigma in ((64, 64, LEVEL), (a * (40 // a | 1), a * (96 // a | 1), 0.011), (a * (72 // a | 1), a * (56 // a | 1), 0.9)):
        x = picture(count, height, width) * 0.8 + 0.1
        try:
            want = call(x.clone(), sigma)
        except (RuntimeError, torch.jit.Error) as error:
            refuse(f"the module fails on {height} x {width} pixels with sigma {sigma}", last_line(error), "save it with torch.jit.script, or trace it without fixed sizes")
        got = layers.evaluate(x, sigma)
        error = float((got - want).abs().max() / want.abs().max().clamp(min=1e-30)) if got.shape == want.shape else float("inf")
        if not error < 2e-6:
            refuse(f"on {height} x {width} pixels with sigma {sigma} the layers give another image", f"relative difference {error:.1e}; something "
                   "in the module depends on the size, the content or the noise level in another way, or works on a view in place")
