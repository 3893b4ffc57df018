# SPDX-License-Identifier: BSD-3-Clause
"""What a program of ours was built with."""
import functools
import subprocess


@functools.cache
def sanitized(program):
    """With AddressSanitizer: it takes memory of its own, and many times as long."""
    return "libasan" in subprocess.run(["ldd", program], text=True, capture_output=True).stdout


def limit(program, seconds):
    """A time limit for one command of it: the factor is that of tessera_add_test."""
    return 3 * seconds if sanitized(program) else seconds
