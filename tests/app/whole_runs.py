# SPDX-License-Identifier: BSD-3-Clause
"""Whole runs of tessera: whole_runs.py SCENARIO PROGRAM SOURCE. Exit code 77: skipped, with the reason."""
from harness import scenario  # first: it skips where a package is missing
import first_data
import fits
import lost
import interrupts
import measured
import plans
import runs
import stops
import volumes

next(vars(module)[scenario] for module in (runs, stops, interrupts, lost, plans, measured, fits, first_data, volumes) if scenario in vars(module))()
print(f"{scenario}: passed")
