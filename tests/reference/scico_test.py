# SPDX-License-Identifier: BSD-3-Clause
"""tessera's ADMM against SCICO's, which shares no line with it: the same measurement, weights and iterations.

usage: scico_test.py stored|live PROGRAM SOURCE_DIR
stored: against what SCICO computed once (scico.safetensors). live: SCICO itself runs, on another problem and network.

SCICO's DnCNN pads circularly, tessera's with zeros. So SCICO gets the picture and tessera gets 3 x 3 copies of it side
by side, of which the middle one is compared: blur and noise are then periodic for both, and what the zeros change
stays within the copies outside (one step of the network reaches 6 pixels; a copy has 64).
"""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from harness import distance, image, job, np, run, scenario, source, work
from safetensors.numpy import load_file

REFERENCE = source / "tests/reference"
JOB = """\
schema: 1
problem:
  measurements: y.npy
  image: {{size: [{side}, {side}]}}
  scale: {{factor: 1}}
  operator: {{type: blur, kernel: {{file: kernel.npy, normalize: false}}, boundary: circular}}
denoiser: {{network: dncnn, weights: ./weights.safetensors, averaging: none}}
solver: {{name: admm, start: measurement, step: {gamma}, dual_step: 1, iterations: {iterations}}}
output: {{folder: out{iterations}}}
"""


def converted(weights):
    done = subprocess.run([sys.executable, source / "jobs/convert_weights.py", weights, work / "weights.safetensors",
                           "--network", "dncnn"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def compare(folder, weights, iterations_on_ranks):
    """The middle copy after so many iterations against SCICO's z; tessera's x is SCICO's z, its step 1 / rho."""
    theirs = load_file(folder / "scico.safetensors")
    converted(folder / weights)
    side = theirs["y"].shape[0]
    np.save(work / "y.npy", np.tile(theirs["y"], (3, 3)))
    np.save(work / "kernel.npy", theirs["kernel"])
    worst = 0
    for iterations, ranks in iterations_on_ranks:
        path = job(JOB.format(side=3 * side, gamma=1 / float(theirs["rho"]), iterations=iterations))
        run(path, ranks=ranks)
        ours = image(f"out{iterations}").squeeze()
        middle, corner = ours[side:2 * side, side:2 * side], ours[:side, :side]
        wanted = theirs[f"z{iterations}"]
        difference = np.abs(middle - wanted).max()
        print(f"{iterations} iterations on {ranks} ranks: largest difference {difference:.2e}, "
              f"relative {distance(middle, wanted):.2e}; in a copy at the border {np.abs(corner - wanted).max():.2e}")
        worst = max(worst, difference)
    assert worst < 1e-5, worst


if scenario == "stored":
    compare(REFERENCE, "scico_dncnn6L.mpk", [(1, 4), (3, 3), (20, 1)])
else:
    python = source / ".venv-scico/bin/python"
    if not python.exists():
        print(f"skipped: SCICO is not installed ({python} is missing) run jobs/setup.sh --tests")
        sys.exit(77)
    make = [python, REFERENCE / "make_scico_reference.py", "--to", work]
    for options in (["--variant", "6M", "--seed", "3"], []):
        done = subprocess.run([*make, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        if options:
            compare(work, "scico_dncnn6M.mpk", [(20, 2)])
    # The stored files are what SCICO gives today.
    stored, fresh = load_file(REFERENCE / "scico.safetensors"), load_file(work / "scico.safetensors")
    for name, tensor in stored.items():
        assert np.abs(tensor - fresh[name]).max() < 1e-5, name
    name = "scico_dncnn6L.mpk"
    assert (REFERENCE / name).read_bytes() == (work / name).read_bytes()
