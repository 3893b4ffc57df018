# SPDX-License-Identifier: BSD-3-Clause
"""The state dict in a file of PyTorch, safetensors or Flax: read without running its code, unwrapped, each tensor looked at."""
import argparse
import collections
import os
import re
import warnings
import zipfile

import torch

from . import Refused
from .flax_model import flax_dncnn, unpack

# What wraps a module and leaves its name in the keys, wherever it stands.
WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
# Counters, which nothing reads at evaluation.
COUNTERS = {"num_batches_tracked", "n_averaged", "total_ops", "total_params"}
# Parts of a training that hold tensors and no network.
TRAINING = re.compile(r"optim|sched|scaler|callback|loops|hyper_param|^args?$|config|rng_state", re.IGNORECASE)
SAVE = "load it in the program that made it, and save its state_dict() alone: torch.save(model.state_dict(), 'weights.pth')"


def is_torchscript(path):
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def plain(text):
    """Of an exception, its first sentence without a terminal's colors."""
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", str(text)).strip().splitlines()
    return lines[0][:160] if lines else type(text).__name__


def read(path):
    """(What the file holds, whether it is a Flax model). Refused in one line."""
    try:
        with open(path, "rb") as file:
            head = file.read(16)
            # The length of a safetensors file's header may begin with any byte: it is looked for first.
            safetensors = head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= os.fstat(file.fileno()).st_size
            # A map of MessagePack that is not empty; pickles begin with 0x80, archives with P.
            if not safetensors and head and (0x81 <= head[0] <= 0x8f or head[0] in (0xde, 0xdf)):
                data = head + file.read()
                tree, end = unpack(data)
                if end != len(data):
                    raise ValueError("it goes on behind its end")
                return flax_dncnn(tree), True
        if safetensors:
            from safetensors.torch import load_file
            return load_file(path), False
        # Lightning keeps its arguments beside the weights, in a class that holds values and does nothing.
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, on what its own files hold
            return torch.load(path, map_location="cpu", weights_only=True), False
    except Refused:
        raise
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror or plain(error)}) name a file that exists and may be read") from None
    except Exception as error:  # whatever a damaged file makes its reader raise
        foreign = re.search(r"(?:Unsupported global: GLOBAL|Unsupported class) ([\w.]+)", str(error))
        if foreign:
            raise Refused(f"{path} holds Python objects beside its tensors, such as {foreign[1]} (a whole module, or arguments of a training; "
                          f"their code would run) {SAVE}") from None
        raise Refused(f"{path} cannot be read ({plain(error)}) is it a whole checkpoint of PyTorch, safetensors or Flax?") from None


def tensors_of(mapping):
    return {k: v for k, v in mapping.items() if isinstance(k, str) and isinstance(v, torch.Tensor)}


def entries(value, at=""):
    """Path -> each mapping of names to tensors, of which one at least is no scalar, at any depth."""
    found = {}
    tensors = tensors_of(value)
    if any(v.ndim > 0 for v in tensors.values()):
        found[at] = tensors
    for key, inside in value.items():
        if isinstance(key, str) and isinstance(inside, collections.abc.Mapping) and not TRAINING.search(key):
            found |= entries(inside, f"{at}.{key}" if at else key)
    return found


def same(a, b):
    return a.keys() == b.keys() and all(a[k].shape == b[k].shape and torch.equal(a[k], b[k]) for k in a)


def choose(path, checkpoint, entry):
    """The state dict of this name, or the only one."""
    if not isinstance(checkpoint, collections.abc.Mapping):
        raise Refused(f"{path} holds a {type(checkpoint).__name__} (a state dict is expected) {SAVE}")
    found = entries(checkpoint)
    if entry:
        named = [at for at in found if at == entry or at.endswith("." + entry)]
        if len(named) != 1:
            raise Refused(f"{path} has {'no' if not named else 'more than one'} entry {entry} (its state dicts are {', '.join(at or 'the file itself' for at in found)}) correct --entry")
        return found[named[0]]
    if not found:
        raise Refused(f"{path} holds no tensors (nothing to convert) is it the right file?")
    first, *others = found.values()
    if not all(same(first, other) for other in others):
        names = [at or "the file itself" for at in found]
        raise Refused(f"{path} holds {len(found)} sets of weights, {', '.join(names)} (which of them is wanted, the trained ones or their "
                      f"running mean, it does not say) choose with --entry, for example --entry {next(at for at in reversed(found) if at)}")
    return first


def heads(state, most=8):
    names = sorted({k.split(".")[0] for k in state})
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def cut(state, prefix):
    """The keys that begin so, without it."""
    kept = {k[len(prefix):]: v for k, v in state.items() if k.startswith(prefix) and len(k) > len(prefix)}
    if not kept:
        raise Refused(f"no key begins with '{prefix}' (the keys begin with {heads(state)}) correct --prefix")
    return kept


def unwrapped(state):
    """Without the names of wrappers and without counters."""
    out = {}
    for key, value in state.items():
        parts = [part for part in key.split(".") if part not in WRAPPERS]
        while len(parts) > 1 and parts[0] == "module":
            parts.pop(0)
        if parts[-1] not in COUNTERS:
            out[".".join(parts)] = value
    return out


def weights(path, state):
    """The tensors in float32, and the types that they had. Refused where one is no weight."""
    types = set()
    out = {}
    for key, value in state.items():
        if value.is_quantized or not value.dtype.is_floating_point:
            raise Refused(f"{path}: {key} is {str(value.dtype).removeprefix('torch.')} (weights are floating point; a quantized network has other layers) convert the network before it was quantized")
        if value.is_meta or value.layout != torch.strided:
            raise Refused(f"{path}: {key} is {'without values, on the device meta' if value.is_meta else 'sparse'} (nothing to convert) save it with dense values")
        if value.element_size() == 1:
            raise Refused(f"{path}: {key} is {str(value.dtype).removeprefix('torch.')} (eight bits; the scales that belong to them are not known) convert the network before it was quantized")
        types.add(str(value.dtype).removeprefix("torch."))
        out[key] = value.detach().float().contiguous().clone()
        if not bool(torch.isfinite(out[key]).all()):
            raise Refused(f"{path}: {key} holds infinite or not-a-number values (every result would) the training failed; use other weights")
    return out, types
