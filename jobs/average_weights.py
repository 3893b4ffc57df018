#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weights between two others of one network: (1 - share) FIRST + share SECOND, tensor by tensor.

  jobs/average_weights.py plain.safetensors stable.safetensors between.safetensors --share 0.5

Worth it where SECOND was trained on from FIRST (docs/training.md); the average of two trainings from scratch is noise.
Source: Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022.
"""
import argparse
import os
import sys


def refuse(message):
    sys.exit(f"average_weights.py: {message}")


def read(path):
    from safetensors import safe_open

    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}
    except (OSError, ValueError, RuntimeError) as error:
        refuse(f"{path} cannot be read ({error}) name a safetensors file")
    except Exception as error:  # safetensors' own type derives from nothing else
        refuse(f"{path} is no safetensors file ({error}) convert it with jobs/convert_weights.py")


def averaged(first, second, share):
    """The tensors between two sets, in the first one's types; None where the sets do not fit."""
    if first.keys() != second.keys() or any(first[name].shape != second[name].shape for name in first):
        return None
    return {name: ((1 - share) * first[name].double() + share * second[name].double()).to(first[name].dtype)
            for name in first}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("out")
    parser.add_argument("--share", type=float, default=0.5, help="of the second one, 0 to 1 (0.5)")
    parser.add_argument("--half", action="store_true", help="write float16: half the file, the same denoiser to 1e-4")
    o = parser.parse_args()
    if not 0 <= o.share <= 1:
        refuse(f"--share is {o.share} (0: the first one, 1: the second one) use 0.5")
    (first, about), (second, _) = read(o.first), read(o.second)
    tensors = averaged(first, second, o.share)
    if tensors is None:
        refuse(f"{o.first} and {o.second} are of two networks (names or shapes of their tensors differ) "
               "average weights of which one was trained on from the other")
    if o.half:
        tensors = {name: tensor.half() for name, tensor in tensors.items()}
    for key in ("steps", "seed", "training_seconds"):
        about.pop(key, None)
    about["average"] = f"{1 - o.share:g} {os.path.basename(o.first)} + {o.share:g} {os.path.basename(o.second)}"
    from safetensors.torch import save_file

    save_file(tensors, o.out, about)
    os.umask(mask := os.umask(0))
    os.chmod(o.out, 0o666 & ~mask)  # the library's file is for its owner alone
    print(f"{o.out}: {len(tensors)} tensors, {about['average']}")


if __name__ == "__main__":
    main()
