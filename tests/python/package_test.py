# SPDX-License-Identifier: BSD-3-Clause
"""The Python package as its users have it: arrays in, results out, messages, Ctrl-C, an installed copy, the guide's examples.

usage: package_test.py SOURCE_DIR PROGRAM
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings
from pathlib import Path

source, program = Path(sys.argv[1]), sys.argv[2]
if "TESSERA_INSTALLED" not in os.environ:  # else that of a wheel
    sys.path.insert(0, str(source / "python"))
sys.path.insert(0, str(source / "tests/support"))
os.environ["TESSERA"] = program
os.environ.setdefault("OMP_NUM_THREADS", "1")
try:
    import dask.array
    import h5py  # noqa: F401
    import numpy as np
    import pictures
    import yaml  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing} (the packages come from .venv; run jobs/setup.sh)")
    sys.exit(77)
import tessera  # noqa: E402
from tessera.core import core  # noqa: E402

TV = {"denoiser": {"network": "tv"}, "solver": {"name": "admm", "iterations": 6}, "device": "cpu"}


def identity(y, **more):
    return {"problem": {"measurements": y, "operator": {"type": "identity"}, "noise": {"gaussian": 0.05}}, **TV, **more}


class Package(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(self.work.name)
        self.photo = pictures.photograph("camera.png")[100:160, 200:284] / 255.0
        self.y = self.photo + np.random.default_rng(1).normal(0, 0.05, self.photo.shape)

    def test_arrays_go_in_and_come_out(self):
        i = np.arange(7) - 3
        kernel = np.exp(-(i[:, None] ** 2 + i[None] ** 2) / 2)
        mask = np.random.default_rng(2).random(self.photo.shape) < 0.7
        job = {"problem": {"measurements": self.y, "operator": {"type": "blur", "kernel": {"file": kernel}, "boundary": "reflect"},
                           "noise": {"gaussian": np.float32(0.05)}}, **TV}
        states = []
        one = tessera.run(job, callback=states.append)
        self.assertEqual(one.image.shape, self.photo.shape)
        self.assertTrue(one.finished and not one.interrupted and one.summary["iterations"] == 6)
        self.assertEqual(states[-1]["iteration"], 6)
        two = tessera.run(job, ranks=2)
        self.assertEqual(two.summary["ranks"], 2)
        np.testing.assert_allclose(two.image, one.image, atol=1e-4)
        self.assertEqual(list(one.history.index), list(range(6)))
        masked = tessera.run({"problem": {**job["problem"], "operator": {"type": "mask", "file": mask}}, **TV})
        self.assertLess(np.abs(masked.image - self.photo).mean(), 0.08)
        self.assertIn("data:image/png;base64", one._repr_html_())
        self.assertIn("finished, 6 of 6 iterations", repr(one))

    def test_shapes_and_types_as_people_have_them(self):
        color = pictures.photograph("astronaut.png")[:48, :56]
        last = tessera.run(identity(color))
        self.assertEqual(last.image.shape, (48, 56, 3))
        first = tessera.run(identity(np.moveaxis(color, 2, 0)))
        np.testing.assert_array_equal(np.moveaxis(last.image, 2, 0), first.image)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            alpha = tessera.run(identity(np.dstack([color, np.full(color.shape[:2], 255, np.uint8)])))
        self.assertTrue(any("alpha" in str(w.message) for w in said))
        np.testing.assert_array_equal(alpha.image, last.image)
        strided = tessera.run(identity(np.asfortranarray(self.y)[:, ::2]))
        self.assertEqual(strided.image.shape, (60, 42))
        with np.load(self._archive()) as archive:
            archive["y"].setflags(write=False)
            self.assertEqual(tessera.run(identity(archive["y"])).image.shape, self.y.shape)
        np.testing.assert_array_equal(tessera.run(identity(self.y.tolist()), settings={"solver": {"iterations": np.int64(2)}}).image,
                                      tessera.run(identity(self.y), settings={"solver.iterations": 2}).image)
        volume = tessera.run(identity(np.stack([self.y[:24, :24]] * 8)[None]))
        self.assertEqual(volume.image.shape, (8, 24, 24))

    def test_dask_arrays_are_written_by_blocks(self):
        color = pictures.photograph("astronaut.png")[:48, :56]
        blocks = dask.array.from_array(color, chunks=(20, 20, 2))
        with unittest.mock.patch.object(dask.array.Array, "__array__", side_effect=MemoryError("the whole of it")):
            made = tessera.run(identity(blocks))
            gray = tessera.run(identity(dask.array.from_array(self.y, chunks=17) * 2 / 2))
        np.testing.assert_array_equal(made.image, tessera.run(identity(color)).image)
        np.testing.assert_array_equal(gray.image, tessera.run(identity(self.y)).image)
        for bad, why in ((blocks.astype(complex), "complex"), (blocks[blocks > 3], "unknown size"),
                         (dask.array.ma.masked_less(blocks, 4), "masked")):
            with self.assertRaisesRegex(tessera.Error, why):
                tessera.run(identity(bad))

    def _archive(self):
        np.savez("y.npz", y=self.y.astype(np.float32))
        return "y.npz"

    def test_what_is_refused_says_why(self):
        class Tensor:
            requires_grad, shape = True, (4, 4)

            def __array__(self, dtype=None, copy=None):
                return np.zeros((4, 4))

        for bad, words in ((np.zeros((0, 3)), "holds nothing"), (self.y + 1j, "is complex"), (np.array([["a"]]), "no numbers"),
                           (Tensor(), "requires a gradient"), (np.zeros((1, 1, 1, 2, 2)), "two to four axes")):
            with self.assertRaisesRegex(tessera.Error, words):
                tessera.run(identity(bad))
        for job, words in (({"problem": {"measurements": self.y, "operator": 3}}, "^problem.operator is 3"), (identity(self.y[0]), "^array problem")):
            with self.assertRaisesRegex(tessera.Error, words):  # without files and lines that nobody wrote
                tessera.run(job)
        with self.assertRaisesRegex(tessera.Error, "mask would be lost"):
            tessera.run(identity(np.ma.masked_array(self.y, self.y > 0.5)))
        for call in (lambda: tessera.run(identity(self.y), settings=["a"]), lambda: tessera.load(3)):
            with self.assertRaisesRegex(tessera.Error, "of type"):
                call()
        with self.assertRaisesRegex(tessera.Error, "did you mean blur") as refused:
            tessera.run({"problem": {"measurements": self.y, "operator": {"type": "blurr"}}})
        self.assertEqual(refused.exception.code, 2)
        for job, words in (("no.yaml", "no such job file"), (3, "of type int"), ({"output": 3}, "output is no section")):
            with self.assertRaisesRegex(tessera.Error, words):
                tessera.run(job)
        for ranks in (0, 1.5, True):
            with self.assertRaisesRegex(tessera.Error, "one rank or more"):
                tessera.run(identity(self.y), ranks=ranks)
        with self.assertRaisesRegex(tessera.Error, "holds no run"):
            tessera.load(".")

    def test_files_folders_and_settings(self):
        np.save("y.npy", self.y.astype(np.float32))
        first = tessera.run(identity("y.npy"), folder="out", settings={"solver.iterations": 3})
        self.assertEqual((first.folder, first.summary["iterations"]), (Path("out").absolute(), 3))
        with self.assertRaisesRegex(tessera.Error, "out"):
            tessera.run(identity("y.npy"), folder="out")
        tessera.run(identity("y.npy"), folder="out", settings={"solver.iterations": 3}, force=True)
        more = tessera.run("out", resume=True, settings={"solver.iterations": 6})
        whole = tessera.run(identity(Path("y.npy")))
        self.assertEqual((more.summary["iterations"], more.summary["restarts"]), (6, 1))
        Path("job.yaml").write_text("problem: {measurements: y.npy, operator: {type: identity}, noise: {gaussian: 0.05}}\n"
                                    "denoiser: {network: tv}\nsolver: {name: admm, iterations: 6}\noutput: {folder: runs/a}\n")
        named = tessera.run("job.yaml")
        self.assertEqual(named.folder, Path("runs/a").absolute())
        np.testing.assert_array_equal(named.image, whole.image)
        self.assertIn("solver       admm, 6 iterations", tessera.check("job.yaml"))
        network = {"problem": identity("y.npy")["problem"], "solver": {"name": "hqs", "iterations": 2}}
        self.assertIn("drunet", tessera.plan(network, "--ranks", "1,2"))
        with self.assertRaisesRegex(tessera.Error, "plan a network, or run it"):
            tessera.plan("job.yaml")

    def test_an_interrupt_returns_what_there_is(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        big = np.tile(self.y, (6, 5))

        def first(state):
            if state["iteration"] >= 2:
                os.kill(os.getpid(), signal.SIGINT)

        result = tessera.run(identity(big, solver={"name": "pgd", "iterations": 40000, "stop": {"rounding": False}}), folder="stopped", callback=first)
        self.assertTrue(result.interrupted and result.image.shape == big.shape)
        done = result.status["iteration"]
        self.assertTrue(2 <= done < 40000, done)
        self.assertEqual(tessera.run("stopped", resume=True, settings={"solver.iterations": done + 1}).status["iteration"], done + 1)

    def test_a_run_ends_with_a_killed_python(self):
        code = """if True:
            import sys
            sys.path[:0] = sys.argv[2:]
            import numpy, tessera
            tessera.run({"problem": {"measurements": numpy.random.rand(40, 40), "operator": {"type": "identity"}, "noise": {"gaussian": 0.1}},
                         "denoiser": {"network": "tv"}, "solver": {"name": "pgd", "iterations": 10 ** 6, "stop": {"rounding": False}}},
                        folder=sys.argv[1], callback=lambda s: print("on", flush=True) if s["iteration"] > 5 else None)"""
        python = subprocess.Popen([sys.executable, "-c", code, "killed", *sys.path], stdout=subprocess.PIPE, text=True)
        self.assertEqual(python.stdout.readline().strip(), "on")
        python.kill()
        python.wait()
        for _ in range(200):
            state = tessera.load("killed").status["state"]
            if state != "running":
                break
            time.sleep(0.1)
        self.assertNotEqual(state, "running")

    def test_a_missing_program_is_said(self):
        code = "import sys; sys.path.insert(0, sys.argv[1]); import tessera; print(tessera.find_program())"
        import shutil
        copy = shutil.copytree(source / "python", Path("copy").absolute(), ignore=shutil.ignore_patterns("__pycache__"))
        said = subprocess.run([sys.executable, "-c", code, str(copy)], env=os.environ, text=True, capture_output=True, check=True).stdout
        self.assertEqual(said.strip(), str(Path(program).resolve()))
        said = subprocess.run([sys.executable, "-c", code, str(copy)], env={**os.environ, "TESSERA": "", "PATH": "/nowhere"}, text=True,
                              capture_output=True)
        self.assertIn("no program tessera was found", said.stderr)

    def test_the_guide_runs_as_written(self):
        text = (source / "docs/python.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", text, re.S)
        self.assertGreaterEqual(len(blocks), 3)
        pictures.imsave(Path("photo.png"), pictures.photograph("camera.png")[100:196, 100:228])
        try:
            core()
        except (tessera.Error, ImportError) as missing:
            self.skipTest(str(missing))  # built without the headers of Python; tests/python/parts_test.py is skipped too
        names = {}
        for block in blocks:
            exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102
        self.assertGreater(names["result"].summary["psnr"] or 99, 20)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
