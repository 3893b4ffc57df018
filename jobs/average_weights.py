#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weights between two others of one network: (1 - share) FIRST + share SECOND, tensor by tensor.

  jobs/average_weights.py plain.safetensors stable.safetensors between.safetensors --share 0.5

Worth it where SECOND was trained on from FIRST (docs/training.md); the average of two trainings from scratch is noise.
Source: Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022.
"""
import argparse
import os
import sys

if __name__ == "__main__":
    from own_python import need

    need("safetensors", "torch")

from convert_weights import write
from safetensors import SafetensorError, safe_open


def refuse(message):
    sys.exit(f"average_weights.py: {message}")


def read(path):
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}
    except OSError as error:
        refuse(f"{path} cannot be read ({error}) name a safetensors file")
    except SafetensorError as error:
        refuse(f"{path} is no safetensors file ({error}) convert it with jobs/convert_weights.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("out")
    parser.add_argument("--share", type=float, default=0.5, help="of the second one, 0 to 1 (0.5)")
    parser.add_argument("--half", action="store_true", help="write float16: half the file")
    o = parser.parse_args()
    if not 0 <= o.share <= 1:
        refuse(f"--share is {o.share} (0: the first one, 1: the second one) use 0.5")
    (first, about), (second, _) = read(o.first), read(o.second)
    if first.keys() != second.keys() or any(first[name].shape != second[name].shape for name in first):
        refuse(f"{o.first} and {o.second} are of two networks (names or shapes of their tensors differ) "
               "average weights of which one was trained on from the other")
    mean = {name: (1 - o.share) * first[name].double() + o.share * second[name].double() for name in first}
    about = {key: value for key, value in about.items() if key not in ("steps", "seed", "training_seconds")}
    about["average"] = f"{1 - o.share:g} {os.path.basename(o.first)} + {o.share:g} {os.path.basename(o.second)}"
    try:
        write(o.out, {name: tensor.half() if o.half else tensor.to(first[name].dtype) for name, tensor in mean.items()}, about)
    except (OSError, SafetensorError) as error:
        refuse(f"{o.out} cannot be written ({error}) name another file")
    print(f"{o.out}: {len(mean)} tensors, {about['average']}")


if __name__ == "__main__":
    main()
