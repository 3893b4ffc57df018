# SPDX-License-Identifier: BSD-3-Clause
"""For restoration.py: the comparison with papers, what wrong assumptions cost; results.md and its pictures."""

import io
import shutil
import time
from pathlib import Path

import numpy as np
import scipy.ndimage
import skimage.io

import restoration as R
import restoration_curves as long_runs
import restoration_methods as methods

# --- the comparison with papers -----------------------------------------------------------------------------------------
# (pictures, kernel, factor, noise): the figures that were published, with what they are of. Only what was read somewhere.
HU = "Hu et al., [arXiv 2310.01391](https://arxiv.org/abs/2310.01391)"
PUBLISHED = {
    ("set5", "gaussian 1.6", 1, 2.55): [("DPIR", 32.38, HU), ("PnP-ADMM", 32.31, HU)],
    ("set5", "gaussian 2.0", 1, 2.55): [("DPIR", 30.94, HU), ("PnP-ADMM", 30.77, HU)],
    ("set5", "gaussian 1.6", 2, 2.55): [("DPIR", 31.42, HU)],
    ("set5", "gaussian 1.6", 3, 2.55): [("DPIR", 30.39, HU)],
    ("cbsd10", "gaussian 1.6", 1, 2.55): [("DPIR, all of CBSD68", 28.86, HU), ("PnP-ADMM, all of CBSD68", 28.90, HU)],
    ("cbsd10", "gaussian 2.0", 1, 2.55): [("DPIR, all of CBSD68", 27.52, HU), ("PnP-ADMM, all of CBSD68", 27.45, HU)],
}
# Means over Levin's eight kernels and all of CBSD68 at 12.75, table 2 of the README.
WEI = ("[FizzzFizzz/New-baseline-for-DRUNet-under-different-assumptions]"
       "(https://github.com/FizzzFizzz/New-baseline-for-DRUNet-under-different-assumptions)")
LEVIN_PUBLISHED = [("MMO-FBS", 26.03), ("NE-PGD", 26.16), ("Prox-DRS", 26.64), ("PnPI-FBS", 26.90), ("PnPI-HQS", 27.65)]
LEVIN = [f"motion_{n}" for n in range(4)]
PAPERS = "PnP hqs"


def paper_cells():
    for (pictures, kernel, factor, noise) in PUBLISHED:
        yield pictures, R.Cell(f"{kernel}{f', x{factor} coarser' if factor > 1 else ''}", kernel, noise, factor,
                               bits=0, circular=True)
    for noise in (2.55, 12.75):
        for kernel in LEVIN:
            yield "cbsd10", R.Cell(f"Levin {int(kernel[-1]) + 1}", kernel, noise, bits=0, circular=True)


def paper_tasks(data):
    tasks = []
    for pictures, cell in paper_cells():
        for path in sorted((data / pictures).glob("*.[pb][nm][gp]")):
            for method in ("measurement", PAPERS):
                tasks.append((pictures, "color", cell, str(path), 0, method, {}))
    return tasks


# --- what wrong assumptions cost ----------------------------------------------------------------------------------------
OVER = 1.2  # exposure
CRIMES = {
    "none: circular blur, float samples": {},
    "rounded to 8 bits": dict(bits=8),
    "rounded to 6 bits": dict(bits=6),
    "boundary unknown, assumed circular": dict(field=True, assume="circular"),
    "boundary unknown, reconstructed as such": dict(field=True),
    "kernel 10 % too narrow": dict(width=0.9),
    "kernel 10 % too wide": dict(width=1.1),
    "data from a grid twice as fine": dict(fine=True),
    "overexposed by 1.2, cut off, 8 bits, not said": dict(exposure=OVER, bits=8),
    "overexposed by 1.2, cut-off samples left out": dict(exposure=OVER, bits=8, saturation=0.999),
    "noise stated twice too high": dict(stated=2.0),
    "noise stated twice too low": dict(stated=0.5),
    "all of a camera's: field, 8 bits, fine grid, kernel 10 % too wide": dict(field=True, bits=8, fine=True, width=1.1),
}
SIGMA, NOISE = 1.6, 2.55


def crime_tasks():
    return [(name, picture) for name in CRIMES for picture in R.COLOR]


def bin2(x):
    return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4


def crime(task):
    """One row: PnP hqs where the data are made in another way than it assumes. The truth is a photograph binned by two,
    so that there is one on a grid twice as fine."""
    name, picture = task
    c = dict(bits=0, exposure=1.0, field=False, assume=None, width=1.0, fine=False, saturation=None, stated=1.0)
    c |= CRIMES[name]
    half, cut, side = 12, 20, 136
    fine = R.wheel_picture(picture, 2 * side, row=4, column=100)
    truth = bin2(fine)
    kernel = methods.gaussian(SIGMA)

    camera = methods.Camera(NOISE / R.LEVELS, c["bits"], c["exposure"])
    m = methods.Measurement(truth, kernel, camera, 0, circular=True)  # its samples are replaced
    clean = scipy.ndimage.convolve(truth, kernel[None], mode="wrap")
    if c["fine"]:
        clean = bin2(scipy.ndimage.convolve(fine, methods.gaussian(2 * SIGMA, 51)[None], mode="wrap"))
    if c["field"]:
        clean = clean[:, half:-half, half:-half]
        if c["assume"]:  # the field taken for the whole
            m.area = clean.shape[1:]
        else:
            m = methods.Measurement(truth, kernel, camera, 0)
    m.y = camera.take(clean, 0)
    m.kernel = methods.gaussian(SIGMA * c["width"])
    folder = R.bench.work / "runs" / f"assumption-{list(CRIMES).index(name)}-{picture}"
    row = dict(table="assumptions", kind="color", cell=name, bits=c["bits"], picture=picture, seed=0, method="PnP hqs",
               psnr=np.nan, psnr8=np.nan, ssim=np.nan, seconds=0.0, note="")
    begin = time.perf_counter()
    m.camera = methods.Camera(camera.sigma * c["stated"], 0)  # what the job says of the noise
    extra = f"  saturation: {c['saturation']}\n" if c["saturation"] else ""
    R.bench.job(m, folder, "shipped", R.SOLVERS["PnP hqs"], extra)
    try:
        x = R.bench.tessera(folder) / c["exposure"]
    except RuntimeError as error:
        row["note"] = str(error)
        return row
    rim = cut - half if c["assume"] else cut  # always the same pixels of the truth
    x, t = x[:, rim : x.shape[1] - rim, rim : x.shape[2] - rim], truth[:, cut:-cut, cut:-cut]
    # What the overexposed rows cut off, left out in a second figure of every row.
    kept = (OVER * scipy.ndimage.convolve(truth, kernel[None], mode="wrap") < 0.97)[:, cut:-cut, cut:-cut]
    row |= {"seconds": round(time.perf_counter() - begin, 2), "psnr": methods.psnr(x, t),
            "psnr8": methods.psnr(x, t, rounded=True), "ssim": methods.ssim(x, t),
            "note": f"{methods.psnr(x[kept], t[kept]):.4f} dB without the pixels that overexposure cuts off"}
    return row


# --- the page -----------------------------------------------------------------------------------------------------------
TILE = 80


def middle(image):
    row, column = ((n - TILE) // 2 for n in image.shape[1:])
    return image[:, row : row + TILE, column : column + TILE].astype(np.float32)


def gallery(path, rows, work, others):
    """One line per cell: truth and methods, a part of one photograph twice as large."""
    wanted = [("blur Gaussian 1.6, noise 2.55", "astronaut"), ("blur drawn motion, noise 7.65", "coffee"),
              ("80 % missing, noise 2.55", "chelsea"), ("x3 coarser, noise 2.55", "astronaut")]
    shown = ["measurement", "Wiener", "TV", "BM3D", "PnP hqs"]
    lines = []
    for cell, picture in wanted:
        found = {r["method"]: r["note"] for r in rows if r["table"] == "photographs" and r["seed"] == 0
                 and (r["cell"], r["picture"]) == (cell, picture) and r["note"].endswith(".npz")}
        if "PnP hqs" not in found:
            continue
        tiles = []
        for name in shown:
            if name not in found:
                tiles.append(np.ones((3, TILE, TILE)))
                continue
            file = np.load(work / "images" / found[name])
            tiles.append(middle(file["image"]))
        tiles.append(middle(file["truth"]))
        line = np.concatenate([np.pad(t, ((0, 0), (2, 2), (2, 2)), constant_values=1) for t in tiles], axis=2)
        lines.append(np.kron(line, np.ones((1, 2, 2))))
    if not lines:
        return []
    picture = np.moveaxis(np.concatenate(lines, axis=1), 0, -1)
    skimage.io.imsave(path, np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8), check_contrast=False, quality=85)
    return shown + ["truth"]


def values(rows, **conditions):
    picked = [r for r in rows if all(r[k] == v for k, v in conditions.items())]
    return {(r["picture"], r["seed"]): r["psnr"] for r in picked if not np.isnan(r["psnr"])}


def text_of(numbers):
    numbers = list(numbers)
    return f"{np.mean(numbers):.2f} ± {np.std(numbers):.2f}" if numbers else "-"


def table(out, head, lines):
    print("| " + " | ".join(head) + " |", file=out)
    print("|" + "---|" * len(head), file=out)
    for line in lines:
        print("| " + " | ".join(line) + " |", file=out)
    print(file=out)


RIVALS = ("Wiener", "Richardson-Lucy", "TV", "BM3D")


def main_tables(out, rows, parameters, others):
    lost = []
    for kind, title in (("color", "Color"), ("gray", "Gray")):
        of_kind = [r for r in rows if r["table"] == "photographs" and r["kind"] == kind]
        if not of_kind:
            continue
        pictures = sorted({r["picture"] for r in of_kind})
        names = [n for n in dict.fromkeys(r["method"] for r in of_kind)]
        lines = []
        for cell in parameters:
            means = {n: values(of_kind, cell=cell.label, method=n) for n in names}
            best = max((np.mean(list(v.values())) for v in means.values() if v), default=0)
            line = [cell.label]
            for n in names:
                text = text_of(means[n].values())
                line.append(f"**{text}**" if means[n] and np.mean(list(means[n].values())) > best - 0.005 else text)
            lines.append(line)
            for n in names:
                for rival in RIVALS:
                    common = means[n].keys() & means.get(rival, {}).keys()
                    if n.startswith("PnP") and common:
                        gains = [means[n][k] - means[rival][k] for k in common]
                        if np.mean(gains) <= 0:
                            lost.append((kind, cell.label, n, rival, gains))
        print(f"### {title}: {', '.join(pictures)}\n", file=out)
        table(out, ["cell", *names], lines)
        lines = []
        for cell in parameters:
            line = [cell.label]
            for n in names:
                if not n.startswith("PnP"):
                    continue
                mine = values(of_kind, cell=cell.label, method=n)
                for group in (("Wiener", "Richardson-Lucy", "TV"), ("BM3D",)):
                    theirs = [v for g in group if (v := values(of_kind, cell=cell.label, method=g))]
                    gains = [mine[k] - max(v[k] for v in theirs if k in v) for k in mine] if theirs else []
                    line.append(f"{text_of(gains)}, least {min(gains):+.2f}" if gains else "-")
            lines.append(line)
        head = [f"{n} - {g}" for n in names if n.startswith("PnP") for g in ("best of Wiener, RL, TV", "BM3D")]
        print("The difference on the same measurement:\n", file=out)
        table(out, ["cell", *head], lines)
    return lost


def write(folder, rows, crimes, curves, stability, parameters, others, work):
    (folder / "img").mkdir(parents=True, exist_ok=True)
    out = io.StringIO()
    write_head(out, rows, parameters, others)
    names = gallery(folder / "img" / "results_gallery.jpg", rows, work, others)
    lost = main_tables(out, rows, parameters, others)
    write_lost(out, lost)
    if names:
        print(f"From left to right: {', '.join(names)}; a white tile where the method does not apply. Seed 0, the "
              f"{TILE} x {TILE} pixels in the middle, doubled.\n\n![parts of restored photographs](img/results_gallery.jpg)\n", file=out)
    write_parameters(out, parameters, others)
    if any(r["table"] in ("set5", "cbsd10") for r in rows):
        write_papers(out, rows)
    if crimes:
        write_crimes(out, crimes)
    if curves:
        long_runs.figure_of_curves(folder / "img" / "results_curves.png", curves)
        long_runs.write_curves(out, curves, table)
    if stability:
        long_runs.write_stability(out, stability, table)
    (folder / "results.md").write_text(out.getvalue().rstrip() + "\n")
    if folder.name == "docs":
        shutil.copyfile(work / "results.csv", folder / "results.csv")


def write_head(out, rows, parameters, others):
    photographs = [r for r in rows if r["table"] == "photographs"]
    seeds = len({r["seed"] for r in photographs})
    command = "tests/bench/restoration.sh" + (" --data FOLDER" if R.bench.data else "") + f" --seeds {seeds}"
    for name, (file, network, kind) in R.bench.weights.items():
        command += f" --weights {name}=FILE:{network}:{kind}" if file else ""
    print(f"""# Results

What tessera makes of photographs that were measured by something else than tessera, beside other methods. All of this page, its pictures and [results.csv](results.csv) (one row per run, with SSIM) are made by

```
{command}
```

where `--data` is for the comparison with papers; `--help` lists the options. Figures are PSNR in dB, peak 1, not clipped, of all scored pixels and channels together; mean ± standard deviation over pictures and {seeds} seed{'s' if seeds > 1 else ''}. Most of that deviation is between pictures: the second tables compare on the same measurement.

## How the data are made

- **Pictures**: areas of {R.AREA} x {R.AREA} pixels of photographs that come with scikit-image. The networks were trained on none of them.
- **Measurements** are made by numpy and scipy, not by tessera's operators. A blur is computed from the whole area, and only the samples that need nothing from outside are kept: the border is unknown to every method. White noise of the given standard deviation (gray levels of 255) is added, values are cut off at black and white and **rounded to 8 bits**. What remains of an inverse crime: grid and kernel of the data are those of the reconstruction; what that is worth is measured [below](#what-wrong-assumptions-cost).
- **Kernels**: Gaussians of 25 x 25; a drawn camera path of 19 x 19; those of Levin et al. 2009 where their files are given. "x2 coarser": Gaussian 1.6, then every second pixel. "80 % missing": one pixel in five is known.
- **Scored** is what the samples surround, without a rim of 8 pixels.
- **The noise level is given** to every method that asks for one.

## The methods

| | |
|---|---|
| measurement | as it is; a cubic spline through coarser samples; linear interpolation of known pixels |
| Wiener | quadratic smoothness (the Wiener filter of a 1/f² spectrum), solved with the unknown border; strength chosen |
| Richardson-Lucy | scikit-image's; number of iterations chosen |
| TV | isotropic total variation, ADMM with up to 1000 iterations; strength chosen |
| BM3D | the two steps of the deblurring of the wheel `bm3d` 4.0.3, per channel; its border continued by the Wiener result |
| PnP hqs, PnP admm | `tessera run` with the shipped networks; only this is written of the solver: {' and '.join(f'`{R.SOLVERS[n]}`' for n in R.TABLE)} |

"Chosen": the value that is best on two other photographs ({' and '.join(R.TUNING)}, in gray) for that very cell. PnP has nothing chosen: steps, sigmas and strength follow from the noise level. Other weights than the shipped ones run with the same line.

## The table
""", file=out)


# Why a PnP row is below another one: pictures, row, rival, beginning of the cell's name ("": any), the reason. The first
# that fits is printed.
REASONS = [
    ("", "PnP hqs, DnCNN", "", "", "a blind network takes no noise level: it removes what it takes for noise at every iteration, and nothing falls"),
    ("gray", "", "BM3D", "blur", "it is the brick wall alone: BM3D joins what repeats across a picture, the network sees 48 pixels around; the other two are better"),
    ("", "PnP admm", "TV", "blur Levin 4", "eight falling levels with short dual steps do not undo a kernel of 27 x 27; hqs takes 24"),
    ("", "", "Wiener", "80 %", "a network sees one pixel in five: its holes are filled by smooth interpolation, and it adds little to that"),
]


def reason(kind, cell, row, rival):
    fits = (r[4] for r in REASONS if r[0] in kind and r[1] in row and r[2] in rival and cell.startswith(r[3]))
    return next(fits, "not explained")


def write_lost(out, lost):
    print("### Where PnP is not first\n", file=out)
    if not lost:
        print("Nowhere: in every cell every PnP row has a higher mean than Wiener, Richardson-Lucy, TV and BM3D.\n", file=out)
        return
    own = [entry for entry in lost if "," not in entry[2]]
    table(out, ["pictures", "cell", "row", "below", "by (mean, dB)", "why"],
          [[kind, cell, row, rival, f"{-np.mean(g):.2f}", reason(kind, cell, row, rival)] for kind, cell, row, rival, g in own])
    for row in dict.fromkeys(entry[2] for entry in lost if "," in entry[2]):  # other weights: one sentence
        entries = [entry for entry in lost if entry[2] == row]
        most = max(entries, key=lambda entry: -np.mean(entry[4]))
        print(f"{row}: below another method in {len({(e[0], e[1]) for e in entries})} cells, most below {most[3]} at "
              f"\"{most[1]}\" ({-np.mean(most[4]):.2f} dB): {reason(most[0], most[1], row, most[3])}.\n", file=out)


def write_parameters(out, parameters, others):
    print("### What was chosen on the other photographs\n", file=out)
    names = [n for n in R.GRIDS if n in others]
    table(out, ["cell", *names],
          [[cell.label, *(f"{best[n]:.3g}" if n in best else "-" for n in names)] for cell, best in parameters.items()])


def write_papers(out, rows):
    print(f"""## Beside published figures

`solver: {R.SOLVERS[PAPERS]}`. The papers' protocol: circular blur (so the wrapped border is known), whole pictures, samples neither rounded nor cut off, color; PSNR after rounding to 8 bits. Set5: five pictures. CBSD10: the ten pictures of CBSD68 that GS-PnP uses. What differs: DPIR's network is a DRUNet with 25 times our weights; published means over CBSD68 are of 68 pictures, ours of 10 among them; the published figures are quoted from the papers named, partly through secondary sources, not reproduced here.
""", file=out)
    lines = []
    for pictures, cell in paper_cells():
        mine = [r for r in rows if r["table"] == pictures and r["cell"] == cell.label]
        by = {}
        for r in mine:
            by.setdefault(r["method"], []).append(r["psnr8"])
        theirs = PUBLISHED.get((pictures, cell.kernel, cell.factor, cell.noise), [])
        lines.append([{"set5": "Set5", "cbsd10": "CBSD10"}[pictures], cell.label, text_of(by.get("measurement", [])),
                      text_of(by.get(PAPERS, [])), "; ".join(f"{n} {v:.2f} ({source})" for n, v, source in theirs) or "-"])
    for noise in (2.55, 12.75):
        mine = {method: [r["psnr8"] for r in rows if r["table"] == "cbsd10" and r["method"] == method
                         and r["cell"].startswith("Levin") and r["cell"].endswith(f" {noise:g}")]
                for method in ("measurement", PAPERS)}
        theirs = "; ".join(f"{n} {v:.2f}" for n, v in LEVIN_PUBLISHED) + f" (all 8 kernels, all of CBSD68, {WEI})"
        lines.append(["CBSD10", f"mean of Levin 1 to 4, noise {noise:g}", text_of(mine["measurement"]),
                      text_of(mine[PAPERS]), theirs if noise == 12.75 else "-"])
    table(out, ["pictures", "blur", "measurement", PAPERS, "published"], lines)


def write_crimes(out, crimes):
    print(f"""## What wrong assumptions cost

Gaussian blur {SIGMA}, noise {NOISE} of 255, `solver: {R.SOLVERS["PnP hqs"]}`, the color photographs binned by two; the first line is the full inverse crime, data made by the very model of the reconstruction. The same pixels are scored in every line; in the last two columns without those that overexposure by {OVER} cuts off. "Not said": nothing in the job tells of the cut; "left out": `problem.saturation`.
""", file=out)
    first = next(iter(CRIMES))

    def open_pixels(name):
        return {r["picture"]: float(r["note"].split()[0]) for r in crimes if r["cell"] == name and "dB" in r["note"]}

    lines, base, base_open = [], values(crimes, cell=first), open_pixels(first)
    for name in CRIMES:
        v, w = values(crimes, cell=name), open_pixels(name)
        cost, cost_open = [v[k] - base[k] for k in v if k in base], [w[k] - base_open[k] for k in w if k in base_open]
        lines.append([name, text_of(v.values()), "" if name == first or not cost else f"{np.mean(cost):+.2f}",
                      text_of(w.values()), "" if name == first or not cost else f"{np.mean(cost_open):+.2f}"])
    table(out, ["data", "PSNR", "difference", "PSNR, not cut off", "difference"], lines)
