# SPDX-License-Identifier: BSD-3-Clause
"""jobs/trace_export.py writes what the Trace Event Format asks for, and what the trace holds.

usage: trace_export_test.py SOURCE_DIR
"""

import collections
import gzip
import json
import unittest

from harness import WORK, empty_work, need, script

need("h5py", "numpy")
import h5py  # noqa: E402
import numpy as np  # noqa: E402
from made_runs import SECONDS, make_run  # noqa: E402

NUMBER, WHOLE = (int, float), (int,)
# Of the Trace Event Format: fields of every kind of event, with their types.
COMMON = {"ph": (str,), "name": (str,), "pid": WHOLE, "tid": WHOLE}
FIELDS = {
    "X": {"ts": NUMBER, "dur": NUMBER, "cat": (str,)},
    "i": {"ts": NUMBER, "s": (str,), "cat": (str,)},
    "b": {"ts": NUMBER, "id": (str,), "cat": (str,)},
    "e": {"ts": NUMBER, "id": (str,), "cat": (str,)},
    "C": {"ts": NUMBER, "args": (dict,)},
    "M": {"args": (dict,)},
}
METADATA = {
    "process_name": "name",
    "thread_name": "name",
    "process_sort_index": "sort_index",
    "thread_sort_index": "sort_index",
}
ITERATIONS, HOST, WAITS = range(3)


def complaints(document):
    """What the format does not allow."""
    said = []
    if not isinstance(document.get("traceEvents"), list):
        return ["traceEvents is no list"]
    open_async = collections.Counter()
    tracks = collections.defaultdict(list)
    for event in document["traceEvents"]:
        fields = COMMON | FIELDS.get(event.get("ph"), {})
        if event.get("ph") not in FIELDS:
            said.append(f"unknown kind of event: {event}")
        wrong = [
            key
            for key, kinds in fields.items()
            if not isinstance(event.get(key), kinds) or isinstance(event.get(key), bool)
        ]
        if wrong:
            said.append(f"{', '.join(wrong)} missing or of the wrong type: {event}")
            continue
        if event.get("ph") == "M" and METADATA.get(event["name"]) not in event["args"]:
            said.append(f"metadata without its value: {event}")
        if event.get("ph") == "C" and not all(isinstance(v, NUMBER) for v in event["args"].values()):
            said.append(f"a counter counts numbers: {event}")
        if event.get("ph") == "i" and event["s"] not in ("g", "p", "t"):
            said.append(f"scope of an instant: {event}")
        if event.get("ph") in ("b", "e"):
            open_async[event["cat"], event["id"], event["name"]] += 1 if event["ph"] == "b" else -1
        if event.get("ph") == "X":
            if event["dur"] < 0:
                said.append(f"negative duration: {event}")
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    said += [f"begun and ended differ: {key}" for key, n in open_async.items() if n]
    for track, spans in tracks.items():  # complete events of a track nest
        around = []
        for begin, end, name in sorted(spans, key=lambda s: (s[0], -s[1])):
            while around and around[-1] <= begin + 0.01:
                around.pop()
            if around and end > around[-1] + 0.01:
                said.append(f"{name} leaves what it lies in, on track {track}")
            around.append(end)
    return said


class Export(unittest.TestCase):
    def setUp(self):
        empty_work()

    def export(self, *arguments, code=0, output="trace.json"):
        done = script("trace_export.py", *arguments, "-o", output)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            return done.stderr
        with (gzip.open if output.endswith(".gz") else open)(WORK / output, "rt") as file:
            document = json.load(file)
        self.assertEqual(complaints(document), [])
        return document["traceEvents"]

    def test_the_check_notices_what_is_wrong(self):
        good = {"ph": "X", "name": "a", "cat": "c", "pid": 0, "tid": 0, "ts": 0, "dur": 5}
        for wrong in ({"ph": "Q"}, {"dur": "5"}, {"dur": -1}, {"pid": None}, {"ts": 3, "dur": 9}):
            self.assertTrue(complaints({"traceEvents": [good, good | wrong]}), wrong)
        self.assertTrue(complaints({"traceEvents": [good | {"ph": "b", "id": "1"}]}))
        self.assertEqual(complaints({"traceEvents": [good]}), [])

    def test_a_track_per_rank_and_stream(self):
        make_run(WORK / "a", ranks=3, iterations=4)
        events = self.export("a")
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {r: f"rank {r} (host0, cpu)" for r in range(3)})
        tracks = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
        self.assertEqual(tracks, {(r, n) for r in range(3) for n in ("iterations", "host", "waiting for other ranks")})
        for rank in range(3):
            mine = [e for e in events if e["pid"] == rank]
            each = SECONDS * (1 + rank / 100) * 1e6
            count = collections.Counter(e["name"] for e in mine if e["ph"] == "X" and e["tid"] == HOST)
            self.assertEqual(count, {"load": 1, "denoise": 4, "halo": 4, "prox": 4, "write": 1})
            denoise = [e for e in mine if e["name"] == "denoise"]
            self.assertAlmostEqual(denoise[0]["dur"], 0.6 * each, 2)
            waits = [e for e in mine if e["tid"] == WAITS and e["ph"] == "X"]
            self.assertEqual(len(waits), 4)
            self.assertAlmostEqual(sum(w["dur"] for w in waits), 4 * 0.05 * each, 2)
            self.assertEqual(sum(e["ph"] == "b" for e in mine), 4)
            iterations = [e for e in mine if e["ph"] == "X" and e["tid"] == ITERATIONS]
            self.assertEqual([e["name"] for e in iterations], [f"iteration {k}" for k in range(4)])
            self.assertAlmostEqual(iterations[1]["args"]["psnr"], 25.0)
            memory = [e["args"]["bytes"] for e in mine if e["ph"] == "C" and e["name"] == "memory: tracked"]
            self.assertEqual(memory, [2 << 20] * 14)
            self.assertEqual(sum(e["ph"] == "i" for e in mine), 4 if rank == 0 else 0)

    def test_clocks_are_brought_together(self):
        make_run(WORK / "a", ranks=2, iterations=5, seconds=0.1)
        with h5py.File(WORK / "a/trace/rank-00001.h5", "r+") as file:
            for table in ("iterations", "phases"):
                rows = file[table][:]
                rows["start"] += 7
                file[table][:] = rows

        def start(events, rank, k):
            return (
                next(e["ts"] for e in events if e["pid"] == rank and e["name"] == f"iteration {k}" and e["ph"] == "X")
                / 1e6
            )

        shifted, own = self.export("a"), self.export("a", "--own-clocks")
        self.assertAlmostEqual(start(shifted, 0, 2), start(shifted, 1, 2), 6)
        self.assertAlmostEqual(start(own, 1, 2) - start(own, 0, 2), 7 + 0.002, 6)

    def test_parts_and_compression(self):
        make_run(WORK / "a", ranks=4, iterations=6, psnr=False)
        events = self.export("a", "--ranks", "2,3", "--iterations", "1:3", output="part.json.gz")
        self.assertEqual({e["pid"] for e in events}, {2, 3})
        self.assertEqual(
            {e["args"]["iteration"] for e in events if e.get("cat") == "phase" and e["args"].get("iteration")}, {1, 2}
        )
        self.assertFalse([e for e in events if e["name"] in ("load", "write", "iteration 0", "iteration 3")])
        iteration = next(e for e in events if e["name"] == "iteration 1" and e["ph"] == "X")
        self.assertNotIn("psnr", iteration["args"], "not a number is left out")

    def test_a_resumed_run_is_one_line_of_time(self):
        make_run(WORK / "a", ranks=2, iterations=8, attempts=[(0, 5, 1.0), (3, 5, 0.5)])
        events = self.export("a")
        starts = [e["ts"] for e in events if e["pid"] == 0 and e["tid"] == ITERATIONS and e["ph"] == "X"]
        self.assertEqual(len(starts), 10)
        self.assertTrue(np.all(np.diff(starts) > 0))

    def test_bad_input(self):
        make_run(WORK / "a", ranks=2)
        broken = make_run(WORK / "b", ranks=2)
        for path in broken.glob("trace/*.h5"):
            path.write_bytes(b"")
        for arguments, words in (
            (("nowhere",), "nowhere has no trace"),
            (("a", "--ranks", "5"), "no trace of rank 5"),
            (("a", "--iterations", "3:1"), "'3:1' is no span"),
            (("a", "--iterations", "50:60"), "no iteration of 50:60 is in the trace of a (it has 0 to 4)"),
            (("b",), "no trace in b can be read"),
        ):
            said = self.export(*arguments, code=2)
            self.assertIn(words, said)
        self.assertIn("cannot write", self.export("a", code=2, output="no/where.json"))
        self.assertEqual([p.name for p in WORK.iterdir() if p.is_file()], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
