#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws what 'tessera study' measured: jobs/plot_study.py FOLDER [--out FOLDER] makes NAME.png, .svg and .pdf per NAME.csv."""
import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

if __name__ == "__main__":
    from own_python import need

    need("matplotlib")

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.fonttype": "none", "pdf.fonttype": 42})  # text stays text
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib import ticker  # noqa: E402

COLORS = ["#1b6ca8", "#d1495b", "#66a182", "#8d6a9f", "#edae49", "#2e4057", "#00798c", "#7c7c7c"]


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


def groups(rows, *keys):
    """Rows by the values of these columns, in order of appearance."""
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[k] for k in keys)].append(row)
    return found


def column(rows, key, factor=1.0):
    return [row[key] * factor for row in rows]


def finish(axis, title, x, y, bottom=None):
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(True, color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    if bottom is not None:
        axis.set_ylim(bottom=bottom)


def ticks(axis, values):
    axis.set_xticks(sorted(set(values)))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())


def shape(rows):
    figure, (memory, time) = plt.subplots(1, 2, figsize=(11, 4.2))
    for color, ((network,), mine) in zip(COLORS, groups(rows, "network").items()):
        mine = sorted(mine, key=lambda r: r["width"])
        least, model = column(mine, "weight_bytes", 1e-9), column(mine, "model_bytes", 1e-9)
        memory.plot(column(mine, "width"), [a + b for a, b in zip(least, model)], color=color, linewidth=1,
                    label=f"{network}, model and weights")
        for marker, ((step,), part) in zip("ox", groups(mine, "step").items()):
            label = f"{network}, step {step:g}"
            memory.plot(column(part, "width"), column(part, "peak_bytes", 1e-9), marker, color=color, markersize=5,
                        markerfacecolor="none", label=label)
            time.plot(column(part, "width"), column(part, "seconds"), marker + "-", color=color, markersize=5,
                      linewidth=0.8, markerfacecolor="none", label=label)
    height = rows[0]["height"]
    finish(memory, f"peak memory, height {height:g}", "width, pixels", "GB", 0)
    finish(time, f"time, height {height:g}", "width, pixels", "seconds", 0)
    memory.legend(fontsize=7)
    time.legend(fontsize=7)
    return figure


def batch(rows):
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2))
    for color, ((network,), mine) in zip(COLORS, groups(rows, "network").items()):
        for style, marker, ((patch,), part) in zip(("-", "--", ":"), "os^", groups(mine, "patch").items()):
            x = column(part, "batch")
            kind = dict(color=color, linestyle=style, marker=marker, markersize=4, linewidth=1.2)
            axes[0].plot(x, column(part, "peak_bytes", 1e-9), label=f"{network}, {patch:g}", **kind)
            axes[1].plot(x, column(part, "images_per_second"), **kind)
            axes[2].plot(x, column(part, "arithmetic_share", 100), **kind)
    finish(axes[0], "peak memory", "batch", "GB")
    finish(axes[1], f"images of {rows[0]['image']:g} x {rows[0]['image']:g} per second", "batch", "images/s")
    finish(axes[2], "share of the measured arithmetic peak", "batch", "%", 0)
    for axis in axes:
        axis.set_xscale("log", base=2)
        ticks(axis, column(rows, "batch"))
    for axis in axes[:2]:
        axis.set_yscale("log")
    axes[0].legend(fontsize=7, title="network, patch", title_fontsize=7)
    return figure


def layers(rows):
    kinds = groups([r for r in rows if r["variant"] != "folded"], "layer", "variant")
    figure, axes = plt.subplots(1, len(kinds), figsize=(2.3 * len(kinds) + 1, 3.9), sharey=True)
    for axis, ((layer, variant), mine) in zip(axes, kinds.items()):
        for (color, ((layout, images), part)) in zip(COLORS, groups(mine, "layout", "batch").items()):
            axis.plot(column(part, "bytes", 1e-6), column(part, "bandwidth_share", 100), "o-", color=color, markersize=3.5,
                      linewidth=1, label=f"{layout}, batch {images:g}")
        name = layer.replace("_", " ") + ("" if variant == "-" else f"\n{variant.replace('_', ' ')}")
        finish(axis, name, "MB moved", "")
        axis.axhline(100, color="#999999", linewidth=0.8, linestyle="--")
        axis.set_xscale("log")
        axis.set_yscale("log")
    axes[0].set_ylabel("share of the copy bandwidth, %")
    axes[0].yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axes[-1].legend(fontsize=7)
    return figure


def precision(rows):
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8))
    kinds = list(groups(rows, "precision"))
    images = groups(rows, "image")
    width = 0.8 / max(1, len(images))
    for i, (color, ((image,), mine)) in enumerate(zip(COLORS, images.items())):
        x = [kinds.index((r["precision"],)) + (i - (len(images) - 1) / 2) * width for r in mine]
        axes[0].bar(x, column(mine, "pixels_per_second", 1e-6), width, color=color, label=image)
        axes[1].bar(x, column(mine, "peak_bytes", 1e-6), width, color=color)
        axes[2].bar(x, column(mine, "psnr_change"), width, color=color)
    for axis, title, unit in zip(axes, ("speed", "peak memory", "PSNR against float32"), ("Mpixel/s", "MB", "dB")):
        finish(axis, title, "", unit)
        axis.set_xticks(range(len(kinds)), [k for k, in kinds])
    axes[0].legend(fontsize=7)
    return figure


def halo(rows):
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 4))
    for color, ((transport, channels), mine) in zip(COLORS, groups(rows, "transport", "channels").items()):
        mine = sorted(mine, key=lambda r: r["bytes"])
        kind = dict(color=color, markersize=4, label=f"{transport}, {channels:g} channels")
        axes[0].plot(column(mine, "bytes", 1e-3), column(mine, "seconds", 1e6), "o", **kind)
        axes[1].plot(column(mine, "bytes", 1e-3), column(mine, "bandwidth", 1e-9), "o", **kind)
        axes[2].plot(column(mine, "bytes", 1e-3), column(mine, "hidden_fraction", 100), "o", **kind)
    for axis, title, unit in zip(axes, ("one exchange", "bandwidth", "hidden behind computation"), ("us", "GB/s", "%")):
        finish(axis, f"{title}, {rows[0]['ranks']:g} ranks", "kB sent by the busiest rank", unit)
        axis.set_xscale("log")
    axes[0].set_yscale("log")
    axes[1].set_yscale("log")
    axes[2].set_ylim(0, 105)
    axes[0].legend(fontsize=7)
    return figure


def loader(rows):
    best = max(row.get("pinned", 0) for row in rows)  # where batches can be pinned, as `tessera train` does it
    kinds = groups([row for row in rows if row.get("pinned", 0) == best], "precision")
    figure, axes = plt.subplots(1, len(kinds) + 1, figsize=(4 * len(kinds) + 4, 4), squeeze=False)
    for axis, style, ((precision,), mine) in zip(axes[0], ("-", "--"), kinds.items()):
        for color, ((images,), part) in zip(COLORS, groups(mine, "batch").items()):
            x = column(part, "workers")
            kind = dict(color=color, marker="o", markersize=4, linewidth=1.2)
            axis.plot(x, column(part, "images_per_second"), label=f"batch {images:g}", **kind)
            axis.plot(x, column(part, "loader_images_per_second"), color=color, linestyle=":", linewidth=1)
            axis.axhline(part[0]["training_images_per_second"], color=color, linestyle="--", linewidth=0.8)
            axes[0][-1].plot(x, column(part, "wait_share", 100), linestyle=style, label=f"{precision}, {images:g}", **kind)
        finish(axis, f"{precision}; dotted: the loader alone, dashed: training alone", "workers", "images/s")
        axis.title.set_fontsize(8)
        axis.set_yscale("log")
    finish(axes[0][-1], "share of a step that waits for its batch", "workers", "%", 0)
    for axis in axes[0]:
        ticks(axis, column(rows, "workers"))
        axis.legend(fontsize=7)
    return figure


def kernels(rows):
    kinds = groups(rows, "kind")
    figure, axes = plt.subplots(1, len(kinds), figsize=(2.6 * len(kinds) + 1.5, 3.6), squeeze=False)
    for axis, color, ((kind,), mine) in zip(axes[0], COLORS, kinds.items()):
        axis.bar(range(len(mine)), column(mine, "share", 100), color=color)
        axis.set_xticks(range(len(mine)), [str(r["variant"]) for r in mine], rotation=40, ha="right", fontsize=7)
        finish(axis, kind, "", "share of the best, %")
    return figure


PICTURES = {"shape": shape, "batch": batch, "layers": layers, "kernels": kernels, "precision": precision, "loader": loader,
            "halo": halo}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="where the pictures go (FOLDER)")
    arguments = parser.parse_args()
    tables = [p for p in sorted(arguments.folder.glob("*.csv")) if p.stem in PICTURES]
    if not tables:
        print(f"plot_study: {arguments.folder} holds no study (none of {', '.join(f'{n}.csv' for n in PICTURES)}) "
              "name the folder of a 'tessera study'", file=sys.stderr)
        return 2
    for path in tables:
        with open(path, newline="") as file:
            rows = [{k: number(v) for k, v in row.items()} for row in csv.DictReader(file) if None not in row.values()]
        if not rows:
            print(f"plot_study: {path} has no row yet")
            continue
        figure = PICTURES[path.stem](rows)
        figure.tight_layout()
        out = arguments.out or arguments.folder
        out.mkdir(parents=True, exist_ok=True)
        for form in ("png", "svg", "pdf"):
            picture = out / f"{path.stem}.{form}"
            figure.savefig(picture, dpi=110)
            print(picture)
        plt.close(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
