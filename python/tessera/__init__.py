# SPDX-License-Identifier: BSD-3-Clause
"""tessera from Python: whole jobs as runs of the program, and its operators, denoisers and solvers in this process.

    import tessera
    result = tessera.run({"problem": {"measurements": y, "operator": {"type": "blur", "kernel": {"file": k}}}}, ranks=2)
    result.image, result.summary["chi2"], result.warnings, result.history

    A = tessera.operator({"type": "blur", "kernel": {"file": k}, "boundary": "reflect"}, y.shape)
    tessera.reconstruct(A @ x, A, denoiser="drunet").image

Keys are those of a job file (docs/job_file.md); docs/python.md is the guide.
"""
from .denoisers import Denoiser, denoiser
from .metrics import compare
from .operators import Operator, from_deepinv, operator
from .program import Error, find_program
from .result import Result, load
from .running import check, plan, run
from .solvers import Reconstruction, reconstruct
from .trace import exposed_share, read_trace

__all__ = ["Denoiser", "Error", "Operator", "Reconstruction", "Result", "check", "compare", "denoiser", "exposed_share", "find_program",
           "from_deepinv", "load", "operator", "plan", "read_trace", "reconstruct", "run"]
