# SPDX-License-Identifier: BSD-3-Clause
"""tessera from Python: jobs as dicts with arrays in them, runs on any number of ranks, results as arrays and tables.

    import tessera
    result = tessera.run({"problem": {"measurements": y, "operator": {"type": "blur", "kernel": {"file": k}}}}, ranks=2)
    result.image, result.summary["chi2"], result.warnings, result.history

The program does the work, as a process of its own or, with more ranks, under its launcher: find_program() says which. Keys
are those of a job file (docs/job_file.md); docs/python.md is the guide.
"""
from .program import Error, find_program
from .result import Result, load
from .running import check, plan, run
from .trace import exposed_share, read_trace

__all__ = ["Error", "Result", "check", "exposed_share", "find_program", "load", "plan", "read_trace", "run"]
