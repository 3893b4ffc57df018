# SPDX-License-Identifier: BSD-3-Clause
"""What a run computed on, from the attributes of its traces: the measure of speedup and efficiency."""

import dataclasses
import re


@dataclasses.dataclass
class Hardware:
    """threads: of each rank, in order; None where an older trace does not say. units: cores that compute, at most one
    per thread, or GPUs, one for each rank; what efficiency is per.
    """

    hosts: int
    threads: list | None
    cores: int | None  # that the ranks may run on, all hosts together
    sockets: int | None  # of all hosts
    units: int
    shared: bool  # more threads than cores on some host

    def threads_text(self):
        """"2", or "1 to 2" where ranks differ."""
        if not self.threads:
            return ""
        low, high = min(self.threads), max(self.threads)
        return str(low) if low == high else f"{low} to {high}"

    def columns(self):
        """As columns of a table."""
        return {
            "nodes": self.hosts,
            "threads": self.threads_text(),
            "cores": "" if self.cores is None else self.cores,
            "sockets": "" if self.sockets is None else self.sockets,
            "shared_cores": "" if self.cores is None else "yes" if self.shared else "no",
        }


def core_set(text):
    """{0, 1, 2, 5} of "0-2,5"."""
    cores = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cores |= set(range(int(first), int(last or first) + 1))
    return cores


def said_in(pattern, attributes):
    match = re.search(pattern, str(attributes.get("machine", "")))
    return int(match[1]) if match else None


def threads_of(attributes):
    return int(attributes["threads"]) if "threads" in attributes else said_in(r"(\d+) threads per rank", attributes)


def cores_of(attributes):
    if "cores" in attributes:
        return core_set(str(attributes["cores"]))
    return set(range(said_in(r"(\d+) cores", attributes) or 0))


def hardware_of(attributes):
    """attributes: those of every rank's trace, text decoded. Traces before schema 2 say threads and cores in a line."""
    hosts = {}
    for a in attributes:
        hosts.setdefault(str(a.get("host", "")), []).append(a)
    threads = [threads_of(a) for a in attributes]
    if None in threads or not threads:
        return Hardware(len(hosts), None, None, None, len(attributes), False)
    cores = units = sockets = 0
    shared = False
    for ranks in hosts.values():
        here = set().union(*map(cores_of, ranks))
        wanted = sum(map(threads_of, ranks))
        cores += len(here)
        sockets += max(int(a.get("sockets", 0)) for a in ranks)
        if all(str(a.get("device", "cpu")).startswith("cuda") for a in ranks):
            units += len(ranks)  # each has one; where each sees its own alone, all are called cuda:0
        else:
            units += min(wanted, len(here)) if here else len(ranks)
            shared |= wanted > len(here) > 0
    return Hardware(len(hosts), threads, cores or None, sockets or None, units, shared)
