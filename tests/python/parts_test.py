# SPDX-License-Identifier: BSD-3-Clause
"""Operators, denoisers and solvers in the process of Python: against numpy, against a run of the program, on ranks of mpi4py.

usage: parts_test.py SOURCE_DIR PROGRAM          parts_test.py SOURCE_DIR PROGRAM ranks FILE: what each rank of a launch does
"""
import copy
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

source, program = Path(sys.argv[1]), sys.argv[2]
if "TESSERA_INSTALLED" not in os.environ:  # else that of a wheel
    sys.path.insert(0, str(source / "python"))
sys.path.insert(0, str(source / "tests/support"))
os.environ["TESSERA"] = program
os.environ.setdefault("OMP_NUM_THREADS", "1")
try:
    import numpy as np
    import tessera
    import torch
except ImportError as missing:
    print(f"skipped: {missing} (the packages come from .venv; run jobs/setup.sh)")
    sys.exit(77)
try:
    tessera.operator("identity", (4, 4))
except tessera.Error as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SIZE = (45, 62)
TAPS = np.exp(-((np.arange(7) - 3)[:, None] ** 2 + (np.arange(7) - 3)[None] ** 2) / 2)
BLUR = {"type": "blur", "kernel": {"file": TAPS}, "boundary": "reflect"}


class Difference(tessera.Operator):
    """Horizontal differences, whose adjoint torch finds."""
    reach = 1

    def apply(self, x):
        return x[:, 1:-1, 2:] - x[:, 1:-1, 1:-1]


def mean(x, sigma):
    return torch.nn.functional.avg_pool2d(x[None], 3, 1, 1, count_include_pad=False)[0]


def scene(size=SIZE):
    rows, columns = np.mgrid[: size[0], : size[1]]
    return 0.2 + 0.5 * ((rows - 20) ** 2 + (columns - 30) ** 2 < 150) + 0.2 * (rows // 8 % 2)


def everything(comm):
    """One result of each kind, whole on rank 0."""
    def whole(block, piece):
        if comm is None:
            return piece
        pieces = comm.gather((block, piece))
        out = np.zeros(SIZE)
        for place, part in pieces or []:
            out[place] = part
        return out

    x = scene()
    alone = tessera.operator(BLUR, SIZE)
    y = alone @ x + np.random.default_rng(1).normal(0, 0.01, SIZE)
    D = tessera.denoiser("drunet", SIZE, comm=comm)
    A, B = tessera.operator(BLUR, SIZE, comm=comm, like=D), Difference(SIZE, comm=comm)
    assert A.block == D.block
    return {"blur": whole(A.block, A.T @ (A @ x[A.block])), "difference": whole(B.block, B.T @ (B @ x[B.block])),
            "denoised": whole(D.block, D(x[D.block], 0.1)), "norms": np.array([A.norm(), B.norm()]),
            "network": tessera.reconstruct(y, A, noise=0.01, denoiser="drunet").gather(),
            "function": tessera.reconstruct(y, A, noise=0.01, denoiser=tessera.denoiser(mean, reach=1)).gather(),
            "samples": tessera.reconstruct(lambda part, block: y[None][block], A, noise=0.01, denoiser="tv",
                                           settings={"solver": {"name": "admm", "iterations": 4}}).gather()}


def made(**parts):
    """A subclass of Operator with these."""
    return type("Mine", (tessera.Operator,), parts)


def errors_reach_all(comm):
    """What one rank raises ends the call on all of them, and the next call is as if nothing had been."""
    x, four = scene(), {"solver.name": "hqs", "solver.iterations": 4}
    blur = tessera.operator(BLUR, SIZE, comm=comm)
    calls = [0]

    def fails(*_):
        calls[0] += 1
        if comm.rank == 1 and calls[0] > 2:
            raise ValueError("of rank 1")

    same = made(reach=0, apply=lambda self, x: fails() or x, adjoint=lambda self, y: y)
    denoiser = tessera.denoiser(lambda x, sigma: x if fails() is None else x, reach=0)
    plain = {"noise": 0.01, "settings": four}
    for call in (
        lambda: [same(SIZE, comm=comm) @ x[blur.block] for _ in range(3)],
        lambda: tessera.reconstruct(x, blur, denoiser=denoiser, **plain),
        lambda: tessera.reconstruct(x, blur, denoiser="tv", callback=fails, **plain),
        lambda: [tessera.reconstruct(lambda part, block: x[None][block] if fails() is None else x, blur, denoiser="tv", **plain)
                 for _ in range(3)],
        lambda: blur @ (x if comm.rank == 1 else x[blur.block]),
        lambda: tessera.reconstruct(x, blur, noise=-1 if comm.rank == 1 else 1),
    ):
        calls[0] = 0
        try:
            call()
        except (tessera.Error, ValueError) as error:
            said = str(error)
            assert isinstance(error, tessera.Error) or comm.rank == 1, type(error)
        assert comm.allgather(any(words in said for words in ("of rank 1", "is wanted", "noise is -1"))) == [True] * comm.size, said


class Parts(unittest.TestCase):
    def test_operators_are_numpys(self):
        x = np.random.default_rng(0).random(SIZE)
        A = tessera.operator(BLUR, SIZE)
        taps = TAPS / TAPS.sum()
        padded = np.pad(x, 3, mode="reflect")
        expected = sum(taps[i, j] * padded[i : i + SIZE[0], j : j + SIZE[1]] for i in range(7) for j in range(7))
        np.testing.assert_allclose(A @ x, expected, atol=1e-12)
        np.testing.assert_allclose(A @ torch.from_numpy(x), expected, atol=1e-12)
        np.testing.assert_allclose(A @ np.asfortranarray(x).astype(np.float32)[::1], expected, atol=1e-6)
        np.testing.assert_allclose(A @ x[:, ::-1], (A @ x)[:, ::-1], atol=1e-12)
        self.assertLess(A.dot_test(), 1e-14)
        self.assertEqual((A @ x[None]).shape, (1, *SIZE))
        v = np.ones(SIZE)
        for _ in range(300):
            v = A.T @ (A @ v)
            v /= np.linalg.norm(v)
        self.assertAlmostEqual(A.norm(), np.linalg.norm(A @ v), delta=0.03)
        several = tessera.operator([BLUR, {"type": "mask", "file": x > 0.5}], SIZE)
        blurred, kept = several @ x
        np.testing.assert_allclose(kept, np.where(x > 0.5, x, 0))
        np.testing.assert_allclose(several.T @ [blurred, kept], A.T @ blurred + kept, atol=1e-12)
        color = np.random.default_rng(0).random((3, *SIZE), dtype=np.float32)
        np.testing.assert_allclose((tessera.operator(BLUR, color.shape) @ color)[1], A @ color[1], atol=1e-6)
        volume = np.random.default_rng(0).random((1, 5, 20, 24))
        smooth = tessera.operator({"type": "blur", "kernel": {"gaussian": {"sigma": [1.0, 1.0, 1.0]}}, "boundary": "circular"},
                                  volume.shape)
        self.assertLess(smooth.dot_test(), 1e-14)
        self.assertAlmostEqual(float((smooth @ volume).sum()), float(volume.sum()), places=8)

    def test_scipy_and_derivatives(self):
        from scipy.sparse.linalg import lsqr
        x = np.random.default_rng(0).random(SIZE)
        A = tessera.operator({"type": "mask", "keep": 0.5}, SIZE)
        found = lsqr(A.aslinearoperator(), (A @ x).ravel())[0].reshape(SIZE)
        np.testing.assert_allclose(A @ found, A @ x, atol=1e-9)
        v = torch.tensor(x, requires_grad=True)
        B = tessera.operator(BLUR, SIZE)
        (B @ v).square().sum().backward()
        np.testing.assert_allclose(v.grad, 2 * (B.T @ (B @ x)), atol=1e-12)

    def test_an_operator_in_python(self):
        x = np.random.default_rng(0).random(SIZE)
        B = Difference(SIZE)
        out = B @ x
        np.testing.assert_allclose(out[:, :-1], x[:, 1:] - x[:, :-1], atol=1e-12)
        self.assertLess(B.dot_test(), 1e-14)

        class Rows(tessera.Operator):  # of the whole image: sums of its rows, by numpy
            samples = (SIZE[0], 1)

            def apply(self, x):
                return x.numpy().sum(axis=2, keepdims=True)

            def adjoint(self, y):
                return np.repeat(y.numpy(), SIZE[1], axis=2)

        R = Rows(SIZE)
        np.testing.assert_allclose((R @ x)[:, 0], x.sum(axis=1), atol=1e-10)
        self.assertAlmostEqual(R.norm(), SIZE[1] ** 0.5, delta=0.03 * SIZE[1] ** 0.5)

        class Wrong(Rows):
            def adjoint(self, y):
                return 0.9 * super().adjoint(y)

        with self.assertRaisesRegex(tessera.Error, "adjoint is not that of apply"):
            Wrong(SIZE)

        class Physics:  # as deepinv's are
            def A(self, x):
                return x.flip(-1)

            A_adjoint = A

        np.testing.assert_allclose(tessera.from_deepinv(Physics(), SIZE) @ x, x[:, ::-1], atol=1e-7)

        class Fails(Difference):
            def apply(self, x):
                raise ValueError("no such thing")

        with self.assertRaisesRegex(ValueError, "no such thing"):
            Fails(SIZE)

    def refused(self, words, call):
        with self.assertRaisesRegex(tessera.Error, words) as error:
            call()
        self.assertNotIn("Traceback", str(error.exception))

    def test_arrays_of_every_kind(self):
        x = np.random.default_rng(0).random(SIZE)
        A, t = tessera.operator(BLUR, SIZE), torch.from_numpy(x)
        for same in (x.astype(np.longdouble), x.tolist(), x.astype(">f8"), np.asfortranarray(x), x[::-1][::-1]):
            np.testing.assert_allclose(A @ same, A @ x, atol=1e-12)
        np.testing.assert_allclose(A.T @ x.tolist(), A.T @ x, atol=1e-12)
        negative = torch.view_as_complex(torch.stack([t, t], 2)).conj().imag  # -x, which torch negates when it is read
        np.testing.assert_allclose(A @ negative, -(A @ x), atol=1e-12)
        for bad, words in ((x.astype("M8[s]"), "no numbers"), (np.ma.masked_array(x, x > 0.5), "mask would be lost"), (t.to_sparse(), "dense"),
                           (torch.quantize_per_tensor(t.float(), 0.1, 0, torch.quint8), "dense"), (t.to("meta"), "no values"),
                           ([[1, 2], [3]], "different lengths"), (A, r"A @ \(B @ x\)"), (x[:5], "is wanted")):
            self.refused(words, lambda: A @ bad)
            self.refused(words if bad is not A else "A.T @", lambda: A.T @ bad)
        with self.assertRaises(TypeError):
            x @ A
        several = tessera.operator(["identity", {"type": "mask", "keep": 0.5}], SIZE)
        self.assertEqual((several.T @ [x.astype(np.float32), x]).dtype, np.float64)
        table = tessera.operator({**BLUR, "kernel": {"file": TAPS.tolist()}}, SIZE)
        np.testing.assert_array_equal(table @ x, A @ x)
        for shape in ((4.5, 4), (True, 4), x, (10**30, 3), (2**40, 2**40)):
            self.refused("shape", lambda: tessera.operator("identity", shape))
        for like in (3, tessera.denoiser(mean), tessera.denoiser("tv", (8, 8))):
            self.refused("blocks", lambda: tessera.operator("identity", SIZE, like=like))
        self.refused("^problem.operator.keep is of type complex", lambda: tessera.operator({"type": "mask", "keep": 1j}, SIZE))
        self.refused("^array problem.operator.kernel.file has 1 axes", lambda: tessera.operator({**BLUR, "kernel": {"file": TAPS[0]}}, SIZE))
        D = tessera.denoiser("tv", SIZE)
        for sigma in (-1, np.nan, np.inf, "a", None, [0.1], True):
            self.refused("sigma", lambda: D(x, sigma))
            self.refused("sigma", lambda: tessera.denoiser(mean)(x, sigma))
        self.refused("no finite", lambda: D(np.where(x > 0.5, np.nan, x), 0.1))
        both = torch.func.vmap(lambda v: A @ v)(torch.stack([t, 2 * t]))
        np.testing.assert_allclose(both[1], 2 * (A @ x), atol=1e-12)
        np.testing.assert_allclose(torch.func.grad(lambda v: (A @ v).sum())(t), A.T @ np.ones(SIZE), atol=1e-12)

    def test_what_is_written_in_python_is_held_to_its_word(self):
        x = np.random.default_rng(0).random(SIZE)
        twice = made(apply=lambda self, x: x.mul_(2), adjoint=lambda self, y: y.mul_(2))(SIZE)  # in place, of a copy
        kept = x.copy()
        np.testing.assert_array_equal(twice.T @ (twice @ x), 4 * kept)
        np.testing.assert_array_equal(x, kept)
        np.testing.assert_array_equal(made(apply=lambda self, x: x.mul_(2))(SIZE).T @ x, 2 * kept)
        pair = made(channels=2, apply=lambda self, x: torch.cat([x, 2 * x]))(SIZE)
        self.assertEqual((pair @ x).shape, (2, *SIZE))
        big = (256, 256)
        taps = torch.tensor([[0, 0.1, 0], [0.1, 0.5, 0.2], [0, 0.05, 0.05]], dtype=torch.float64)[None, None]
        conv = torch.nn.functional.conv2d
        for parts, words in (
            ({"apply": lambda s, x: x, "adjoint": lambda s, y: 1.05 * y}, "differ by 0.05"),
            ({"reach": 1, "apply": lambda s, x: conv(x[None], taps)[0],
              "adjoint": lambda s, y: conv(torch.nn.functional.pad(y[None], (2, 2, 2, 2)), taps)[0]}, "differ"),  # not mirrored
            ({"apply": lambda s, x: x + 0.01}, "image of zeros"),
            ({"apply": lambda s, x: torch.fft.fft2(x)}, "complex"),
            ({"apply": lambda s, x: None}, "returned NoneType"),
            ({"apply": lambda s, x: x.numpy() * 2}, "has no adjoint"),
            ({}, "has no apply"),
            ({"__init__": lambda s, shape: None}, "was not begun"),
            ({"reach": 1.0}, "reach is 1.0"), ({"reach": True}, "reach"), ({"reach": 2**40}, "reach"),
            ({"reach": 1, "border": ["zero"]}, "border"), ({"reach": 0, "samples": (3, 3)}, "samples"),
            ({"channels": 0}, "channels"), ({"channels": 1.5}, "channels"), ({"channels": 2, "samples": big}, "samples"),
        ):
            self.refused(words, lambda: made(**parts)(big) @ np.ones(big))
        self.assertLess(made(apply=lambda s, x: (3 * x).half())(big).dot_test(), 1e-4)  # rounding is no fault
        for wrong, words in ((lambda x, s: x.transpose(1, 2), "makes"), (lambda x, s: x[:, 1:], "makes"), (lambda x, s: x + 1j, "complex"),
                             (lambda x, s: "a", "returned str")):
            self.refused(words, lambda: tessera.denoiser(wrong)(x, 0.1))
            self.refused(words, lambda: tessera.reconstruct(x, tessera.operator("identity", SIZE), noise=0.1, denoiser=wrong))
        self.refused("of type", lambda: tessera.denoiser(3, SIZE))
        self.refused("reach", lambda: tessera.denoiser("tv", SIZE, reach=1))

    def test_copies_and_threads(self):
        x = np.random.default_rng(0).random(SIZE)
        A, D = tessera.operator(BLUR, SIZE), tessera.denoiser("tv", SIZE)
        for again in (pickle.loads(pickle.dumps(A)), copy.deepcopy(A), copy.copy(A)):
            np.testing.assert_array_equal(again @ x, A @ x)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(D))(x, 0.1), D(x, 0.1))
        mine = Difference(SIZE)
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            self.refused("is not copied|is not sent", lambda: way(mine))

        def found(k, into):  # each with a denoiser of its own
            into[k] = tessera.reconstruct(x, A, noise=0.05, denoiser=lambda v, s: v * (0.5 + 0.1 * k), settings={"solver.iterations": 6}).image
            into[-1 - k] = A @ (k * x)

        alone, together = {}, {}
        for k in range(4):
            found(k, alone)
        for _ in range(3):
            threads = [threading.Thread(target=found, args=(k, together)) for k in range(4)]
            for step in (threading.Thread.start, threading.Thread.join):
                for thread in threads:
                    step(thread)
            self.assertEqual(sorted(together), sorted(alone))
            for k, image in alone.items():
                np.testing.assert_array_equal(together[k], image)

    def test_a_reconstruction_is_shown_and_compared(self):
        x = scene()
        A = tessera.operator("identity", SIZE)
        found = tessera.reconstruct(x, A, noise=0.05, denoiser="tv", settings={"solver": {"name": "admm"}, "solver.iterations": np.int64(3)})
        self.assertEqual(found.iterations, 3)
        for part in ("data:image/png;base64", "<polyline", "3 iterations"):
            self.assertIn(part, found._repr_html_())
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).image, found.image)
        numbers = tessera.compare(x, x + 0.1)
        self.assertAlmostEqual(numbers["psnr"], 20, places=3)
        self.assertAlmostEqual(numbers["maximum_error"], 0.1, places=4)
        self.assertEqual(tessera.compare(torch.from_numpy(x), x[:40])["notes"][0][:12], "sizes differ")
        self.refused("no numbers", lambda: tessera.compare(x, None))
        with self.assertWarnsRegex(UserWarning, "the image reaches"):
            tessera.reconstruct(255 * x, A, noise=5, denoiser=mean, settings={"solver.iterations": 2})
        for settings, words in (({"output": {"folder": "a"}}, "ignored"), ({"problem": {"operator": {}}}, "ignored"), ([], "no dict"),
                                ({"solver": {"iterations": lambda: 0}}, "^solver.iterations is of type"), ({"solver": {"iteration": 3}}, "^unknown key")):
            self.refused(words, lambda: tessera.reconstruct(x, A, noise=0.05, settings=settings))
        for noise in ("a", [0.1], 1e-30, True):
            self.refused("noise is", lambda: tessera.reconstruct(x, A, noise=noise))
        self.refused("callback", lambda: tessera.reconstruct(x, A, noise=0.05, callback="a"))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            tessera.reconstruct(lambda part, block: 1 / 0, A, noise=0.05)
        self.refused("is wanted", lambda: tessera.reconstruct(lambda part, block: x[:3], A, noise=0.05))

    def test_the_solvers_give_the_programs_bits(self):
        x = scene()
        A = tessera.operator(BLUR, SIZE)
        y = (A @ x + np.random.default_rng(1).normal(0, 0.01, SIZE)).astype(np.float32)
        found = tessera.reconstruct(y, A)
        run = tessera.run({"problem": {"measurements": y, "operator": BLUR}})
        np.testing.assert_array_equal(found.image, run.image)
        self.assertEqual(found.iterations, run.summary["iterations"])
        np.testing.assert_allclose(found.history["residual"], run.history["residual"], rtol=1e-12)
        self.assertTrue(any("noise: gaussian" in line for line in found.notices))
        torches = tessera.reconstruct(torch.from_numpy(y), A)
        self.assertIsInstance(torches.image, torch.Tensor)
        np.testing.assert_array_equal(torches.image, found.image)
        # The shipped network, called through Python: a denoiser of the program and a function are one to the solvers.
        network, four = tessera.denoiser("drunet", SIZE), {"solver": {"name": "hqs", "iterations": 4}}
        mine = tessera.reconstruct(y, A, noise=0.01, denoiser=lambda x, sigma: network(x, sigma), settings=four)
        theirs = tessera.reconstruct(y, A, noise=0.01, denoiser="drunet", settings=four)
        self.assertEqual(mine.iterations, 4)
        np.testing.assert_allclose(mine.image, theirs.image, atol=1e-5)
        self.assertLess(np.mean((mine.image - x) ** 2), 0.5 * np.mean((y - x) ** 2))
        denoised = network(y, 0.02)
        self.assertLess(np.mean((denoised - (A @ x)) ** 2), np.mean((y - (A @ x)) ** 2))

    def test_stops_and_errors(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        A = tessera.operator(BLUR, SIZE)
        y = A @ scene()
        many = {"solver": {"name": "hqs", "iterations": 500}, "denoiser": {"network": "tv"}}
        seen = []
        few = tessera.reconstruct(y, A, noise=0.01, settings=many, callback=lambda state: seen.append(state) or len(seen) > 2)
        self.assertEqual(few.ended_by, "callback")
        self.assertLess(few.iterations, 10)
        self.assertEqual([s["iteration"] for s in seen[:3]], [0, 1, 2])

        def fails(state):
            raise KeyError("of the callback")

        with self.assertRaisesRegex(KeyError, "of the callback"):
            tessera.reconstruct(y, A, noise=0.01, settings=many, callback=fails)
        with self.assertRaisesRegex(RuntimeError, "of the denoiser"):
            def bad(x, sigma):
                raise RuntimeError("of the denoiser")
            tessera.reconstruct(y, A, noise=0.01, denoiser=bad)
        stopped = tessera.reconstruct(y, A, noise=0.01, settings=many,
                                      callback=lambda state: os.kill(os.getpid(), signal.SIGINT) if state["iteration"] == 3 else None)
        self.assertTrue(stopped.interrupted and stopped.ended_by == "Ctrl-C")
        self.assertLess(stopped.iterations, 12)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        for wrong, call in (
            ("the shape .* is wanted", lambda: A @ np.zeros((3, 4))),
            ("complex", lambda: A @ np.zeros(SIZE, complex)),
            ("unknown key|no such key|ernel", lambda: tessera.operator({"type": "blur", "kernal": 3}, SIZE)),
            ("reach", lambda: tessera.denoiser(mean, reach=-1)),
            ("noise is", lambda: tessera.reconstruct(y, A, noise=-1)),
            ("no operator of tessera", lambda: tessera.reconstruct(y, np.eye(3))),
            ("2 measurements", lambda: tessera.reconstruct([y, y], A)),
            ("iterations", lambda: tessera.reconstruct(y, A, settings={"solver": {"iterations": -3}})),
            ("no communicator", lambda: tessera.operator("identity", SIZE, comm=3)),
            ("the image is|the shape", lambda: tessera.denoiser("drunet", SIZE)(np.zeros((9, 9)), 0.1)),
        ):
            with self.assertRaisesRegex(tessera.Error, wrong):
                call()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A @ np.broadcast_to(np.float64(0.5), SIZE)  # read-only, strides of 0

    def test_ranks_give_what_one_gives(self):
        expected = everything(None)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "found.npz"
            done = subprocess.run([str(source / "jobs/launch.sh"), "-n", "3", sys.executable, "-B", "-m", "mpi4py", __file__, str(source), program,
                                   "ranks", str(file)], capture_output=True, text=True, timeout=200)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            with np.load(file) as found:
                for name, value in expected.items():
                    np.testing.assert_allclose(found[name], value, atol=2e-4, err_msg=name)


if len(sys.argv) > 3:
    from mpi4py import MPI
    results = everything(MPI.COMM_WORLD)
    errors_reach_all(MPI.COMM_WORLD)
    if MPI.COMM_WORLD.rank == 0:
        np.savez(sys.argv[4], **results)
    sys.exit(0)
unittest.main(argv=sys.argv[:1])
