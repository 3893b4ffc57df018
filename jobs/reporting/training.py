# SPDX-License-Identifier: BSD-3-Clause
"""The page of trainings: curves, the sheet of a validation picture, what the weights say of themselves."""

import base64
import csv
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import InputError
from .charts import axis, chart, digits, style, thin
from .page import PICTURES, chart_card, html_page, not_shown, section
from .tables import decibel, e, seconds, tile


@dataclass
class Training:
    name: str
    path: Path
    columns: dict  # name -> float array, a row between two lines of the log
    metadata: dict  # of the weights
    weights: int  # how many

    @property
    def folder(self):
        """What it is named by."""
        return self.path.with_suffix("")

    def levels(self):
        """Noise levels of the validation, in 255ths."""
        return [float(name.partition("@")[2]) for name in self.columns if name.startswith("psnr@")]

    def psnr(self, level):
        """(rows, values) where it was measured."""
        values = self.columns[f"psnr@{level:g}"]
        rows = np.flatnonzero(np.isfinite(values))
        return rows, values[rows]


def is_training(path):
    return Path(path).suffix == ".safetensors"


def read_weights(path):
    """(metadata, number of weights): the header alone is read."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, 1 << 24)))
        metadata = header.pop("__metadata__", {})
        return metadata, sum(math.prod(entry["shape"]) for entry in header.values())
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} holds no weights ({getattr(error, 'strerror', None) or 'it is not a safetensors file'}) name the "
            "output of a training"
        ) from None


def read_training(path):
    path = Path(path)
    metadata, count = read_weights(path)
    curve = path.with_name(path.name + ".curve.csv")
    try:
        with curve.open(newline="") as file:
            head, *rows = list(csv.reader(file))
        table = np.array([[float(cell) if cell else math.nan for cell in row] for row in rows], float)
        columns = dict(zip(head, table.reshape(len(rows), len(head)).T))
        if "step" not in columns or not rows:
            raise ValueError
    except OSError as error:
        raise InputError(
            f"cannot read {curve} ({error.strerror}) it stands beside the weights that tessera train writes"
        ) from None
    except ValueError:
        raise InputError(f"{curve} is not the curve of a training (no row can be read) train again") from None
    return Training(path.stem, path, columns, metadata, count)


def line(training, index, rows, column, against):
    rows = rows[thin(len(rows))]
    steps = training.columns["step"][rows]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(rows) <= 40 else "lines",
        "name": training.name,
        "x": digits(training.columns[against][rows]),
        "y": digits(training.columns[column][rows]),
        "text": [f"step {int(step)}" for step in steps],
        "line": style(index),
        "marker": {"size": 5},
        "hovertemplate": f"{training.name}<br>%{{text}}: %{{y:.5g}}<extra></extra>",
    }


def curves(trainings):
    by_step, by_time = axis("step"), axis("time of training (s)", rangemode="tozero")

    def over(name, title, column, y, x=by_step, against="step", note="", empty=""):
        data = []
        for index, training in enumerate(trainings):
            rows = np.flatnonzero(training.columns.get(column, np.zeros(0)) > 0)
            if len(rows):
                data.append(line(training, index, rows, column, against))
        return chart(name, title, data, {"xaxis": x, "yaxis": y}, note, empty)

    levels = sorted({level for training in trainings for level in training.levels()})
    mean = "Mean over the validation pictures, with the running mean of the weights."
    none = "Trained without train.jacobian."
    norm_note = "Mean over the orbits; iterations of pgd, hqs and admm converge where it is at most 1 everywhere."
    return [
        *(
            over(f"psnr@{v:g}", f"PSNR at {v:g}/255", f"psnr@{v:g}", axis("PSNR (dB)"), by_time, "seconds", mean)
            for v in levels
        ),
        over("loss", "Loss", "loss", axis("mean over the steps between two rows", type="log"), empty="No step was done."),
        over("rate", "Learning rate", "learning_rate", axis("learning rate", tickformat=".1e"), empty="No step was done."),
        over("norm", "Norm of the Jacobian", "norm", axis("estimate of |2 D' - 1|"), note=norm_note, empty=none),
        over("penalty", "Penalty", "penalty", axis("penalty on the Jacobian"), empty=none),
    ]


def sheet(training):
    """The picture that training wrote, as the page shows pictures."""
    path = training.path.with_name(training.path.name + ".png")
    try:
        content = path.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
    except (OSError, struct.error):
        return {"figures": [], "missing": [f"There is no {path.name}: nothing was validated with yet."]}
    levels = ", ".join(f"{level:g}" for level in training.levels())
    return {
        "figures": [
            {
                "title": "A validation picture",
                "src": "data:image/png;base64," + base64.b64encode(content).decode(),
                "width": width,
                "height": height,
                "caption": f"Noisy, denoised and clean; from above, noise of {levels} / 255.",
            }
        ],
        "missing": [],
    }


def facts(training):
    """(what, value, more) of the summary."""
    c = training.columns
    found = [
        ("Steps", f"{int(c['step'][-1])}", f"in {seconds(float(c['seconds'][-1]))} of training"),
        ("Weights", f"{training.weights}", training.metadata.get("network", "")),
        ("Loss", f"{c['loss'][-1]:.5f}", f"at first {c['loss'][0]:.5f}"),
    ]
    for level in training.levels():
        rows, values = training.psnr(level)
        best = f"best {decibel(float(values.max()))} at step {int(c['step'][rows[values.argmax()]])}"
        found.append((f"PSNR at {level:g}/255", decibel(float(values[-1])), best))
    if (c["norm"] > 0).any():
        largest = float(np.nanmax(c["largest_norm"][-10:]))
        found.append(("|2 D' - 1|", f"{c['norm'][-1]:.3f}", f"largest of the last ten rows {largest:.3f}"))
    return found


def table(trainings):
    columns = list(dict.fromkeys(what for training in trainings for what, _, _ in facts(training)))
    head = "".join(f"<th class=n>{e(what)}</th>" for what in columns)
    rows = ""
    for training in trainings:
        known = {what: value for what, value, _ in facts(training)}
        cells = "".join(f"<td class=n>{e(known.get(what, ''))}</td>" for what in columns)
        rows += f"<tr><td>{e(training.name)}</td>{cells}</tr>"
    return f"<div class='card scroll'><table><tr><th>training</th>{head}</tr>{rows}</table></div>"


def metadata(trainings):
    parts = []
    for training in trainings:
        rows = "".join(
            f"<tr><td class=key>{e(key)}</td><td class=wrap>{e(value)}</td></tr>"
            for key, value in [("file", training.path), *sorted(training.metadata.items())]
        )
        parts.append(f"<div class='card scroll'><h3>{e(training.name)}</h3><table>{rows}</table></div>")
    return "".join(parts)


def training_page(trainings, made):
    """HTML. made: a line that says when and from what."""
    many = len(trainings) > 1
    title = f"{len(trainings)} trainings" if many else trainings[0].name
    charts = curves(trainings)
    shown = [c for c in charts if c["data"]]
    cards = f"<div class=grid>{''.join(chart_card(c) for c in shown)}</div>" + not_shown(
        [c for c in charts if not c["data"]]
    )
    summary = table(trainings) if many else "".join(tile(*fact) for fact in facts(trainings[0])).join(
        ("<div class=tiles>", "</div>")
    )
    sections = [
        ("summary", "Summary", f"<h1>{e(title)}</h1><p class=sub>{e(made)}</p>{summary}"),
        ("pictures", "Pictures", PICTURES),
        ("curves", "Curves", cards),
        ("weights", "Weights", metadata(trainings)),
    ]
    first = trainings[0].name
    body = sections[0][2].join(("<section id=summary>", "</section>")) + "".join(
        section(name, heading, inside, first if name == "pictures" else None, many)
        for name, heading, inside in sections[1:]
    )
    pictures = {training.name: sheet(training) for training in trainings}
    names = [training.name for training in trainings]
    return html_page(title, [s[:2] for s in sections], body, names, first, shown, pictures, made)
