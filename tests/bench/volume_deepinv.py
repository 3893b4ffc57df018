# SPDX-License-Identifier: BSD-3-Clause
"""A pass of deepinv's DRUNet in three dimensions, random weights, the median: volume_deepinv.py SIDE ROUNDS wall|cpu

To be held against the row "drunet3d 16 32 64 128" of volume_throughput.sh, which starts this."""
import statistics
import sys
import time

import deepinv
import torch

side, rounds = int(sys.argv[1]), int(sys.argv[2])
clock = time.process_time if sys.argv[3] == "cpu" else time.perf_counter
network = deepinv.models.DRUNet(in_channels=1, out_channels=1, nc=(16, 32, 64, 128), nb=1, pretrained=None, dim=3).eval()
network = network.to(memory_format=torch.channels_last_3d)
x = torch.rand(1, 1, side, side, side)
seconds = []
with torch.no_grad():
    network(x, 0.1)
    for _ in range(rounds):
        begin = clock()
        network(x, 0.1)
        seconds.append(clock() - begin)
print(f"deepinv {deepinv.__version__}, torch {torch.__version__}: drunet 16 32 64 128, dim 3: {1e3 * statistics.median(seconds):.1f} ms")
