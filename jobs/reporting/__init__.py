# SPDX-License-Identifier: BSD-3-Clause
"""The parts of jobs/report.py: runs are read, grouped, drawn and put on one page. docs/report.md."""


class InputError(Exception):
    """Bad input; its text is `<problem> (<why it is one>) <what to do>`."""
