#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# BM3D for correlated noise, from PyPI's bm3d, with the current numpy.
# Guess: it works or not at all; a scalar noise level and a noise spectrum take the same path.
# Really: with a scalar it works, and with a spectrum, the one thing that this implementation is for, it fails: it calls
#   numpy.trapz, which numpy 2.4 has removed. Nothing in its requirements rules that numpy out. numpy before 2.4 helps.
# Seen 2026-11-27, bm3d 4.0.3, bm4d 4.2.5: with numpy 2.4.6 "module 'numpy' has no attribute 'trapz'", with 2.3.5 the
#   white spectrum gives exactly the result of the scalar.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 bm3d==4.0.3 bm4d==4.2.5
cat >colored.py <<'EOF'
import bm3d
import numpy

clean = numpy.kron(numpy.random.default_rng(0).uniform(0, 1, (8, 8)), numpy.ones((16, 16)))
noisy = clean + numpy.random.default_rng(1).normal(0, 0.1, clean.shape)
scalar = bm3d.bm3d(noisy, 0.1)
assert ((scalar - clean) ** 2).mean() < ((noisy - clean) ** 2).mean() / 10
try:
    colored = bm3d.bm3d(noisy, numpy.full(noisy.shape, 0.01 * noisy.size))
except AttributeError as error:
    print(numpy.__version__, error)
else:
    print(numpy.__version__, "works, differs by", abs(colored - scalar).max())
EOF
new=$(python colored.py)
python_packages numpy==2.3.5
old=$(python colored.py)
printf '%s\n' "$new" "$old"
[[ $new == *trapz* && $old == *works* ]]
