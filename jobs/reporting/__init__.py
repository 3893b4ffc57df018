# SPDX-License-Identifier: BSD-3-Clause
"""The parts of jobs/report.py: runs are read, grouped, drawn and put on one page. docs/report.md."""
import codecs
import locale
import os
import sys


class InputError(Exception):
    """Bad input; its text is `<problem> (<why it is one>) <what to do>`."""


def in_utf8():
    """Job files, records and names are UTF-8 in every locale: where it says otherwise, this script begins again."""
    if codecs.lookup(locale.getpreferredencoding(False)).name != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.argv])
