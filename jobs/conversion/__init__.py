# SPDX-License-Identifier: BSD-3-Clause
"""Weights of others -> tensors that tessera loads, for convert_weights.py."""


class Refused(Exception):
    """What cannot be converted, in one line: <problem> (<why>) <what to do>."""
