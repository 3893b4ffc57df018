# SPDX-License-Identifier: BSD-3-Clause
"""The page: one HTML file that needs nothing else."""

import base64
import gzip
import json
from pathlib import Path

from plotly.offline import get_plotlyjs

from .charts import communication_of, convergence, phases_by_run, time_of
from .memory_charts import disk_of, memory_of
from .points import rows_of
from .runs import repeats
from .scaling import differing, series_of
from .scaling_charts import scaling_charts
from .tables import e, notes, percent, runs_table, scaling_table, status_class, tile, tiles_of_many, tiles_of_one

HERE = Path(__file__).parent
# The browser itself keeps the page from loading anything.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def not_shown(charts):
    """Charts without data in any run: a line in place of panels that hold nothing."""
    reasons = {}
    for c in charts:
        reasons.setdefault(c["empty"], []).append(c["title"])
    said = "; ".join(f"{', '.join(titles)} ({reason.rstrip('.')})" for reason, titles in reasons.items())
    return f"<p class=note>Not shown: {e(said)}.</p>" if said else ""


def chart_card(chart, of_run=""):
    of_run = of_run if chart["run"] is not None else ""
    name = f" <span class=note>of <span class=run-name>{e(of_run)}</span></span>" if of_run else ""
    per_run = " data-per-run=1" if chart["run"] is not None else ""
    return (
        f'<div class=card data-chart="{chart["name"]}"{per_run}><h3>{e(chart["title"])}{name}</h3>'
        "<div class=plot hidden></div><div class=empty hidden></div><p class=note></p></div>"
    )


def section(name, title, body, of_run=None, many=False):
    suffix = f" <span class=sub>of <span class=run-name>{e(of_run)}</span></span>" if of_run and many else ""
    return f"<section id={name}><h2>{e(title)}{suffix}</h2>{body}</section>"


def compare(runs):
    rows = differing([run.job for run in runs if run.job])
    rows.pop("output.folder", None)  # stands in the table of runs, and always differs
    named = [run for run in runs if run.job]
    if len(named) < 2:
        return '<div class="card empty">Nothing to compare: it needs two runs or more.</div>'
    if not rows:
        return '<div class="card empty">All runs have the same job.</div>'
    head = "".join(f"<th>{e(run.name)}</th>" for run in named)
    body = "".join(
        f"<tr><td>{e(key)}</td>"
        + "".join(f"<td class=wrap>{e('not given' if v is None else v)}</td>" for v in values)
        + "</tr>"
        for key, values in rows.items()
    )
    return f"<div class='card scroll'><table><tr><th>job key</th>{head}</tr>{body}</table></div>"


def machine(runs):
    parts = []
    for run in runs:
        first = run.attributes[0] if run.attributes else {}
        facts = [
            ("folder", run.folder),
            ("started", first.get("start_time")),
            ("command", first.get("command_line")),
            (
                "tessera",
                f"{first.get('tessera_version', run.summary.get('tessera', ''))} {first.get('tessera_commit', '')}",
            ),
            ("device", run.summary.get("device")),
            ("precision", run.summary.get("precision")),
            ("transport", run.summary.get("transport")),
            ("libraries", first.get("libraries")),
            ("machine", first.get("machine")),
        ]
        table = "".join(
            f"<tr><td class=key>{e(k)}</td><td class=wrap>{e(v)}</td></tr>"
            for k, v in facts
            if v not in (None, "", " ")
        )
        ranks = "".join(
            f"<tr><td class=n>{r}</td><td>{e(a.get('host', ''))}</td><td>{e(a.get('device', ''))}</td>"
            f"<td>{e(block_text(a))}</td></tr>"
            for r, a in zip(run.ranks, run.attributes)
        )
        blocks = (
            "<details><summary>Ranks</summary>"
            "<div class=scroll><table><tr><th class=n>rank</th><th>host</th><th>device</th>"
            f"<th>block</th></tr>{ranks}</table></div></details>"
            if ranks
            else ""
        )
        words = "".join(
            f"<details open><summary>Last words of rank {e(rank)}</summary><pre>{e(text)}</pre></details>"
            for rank, text in list(run.words.items())[:16]
        )
        job = f"<details><summary>Job</summary><pre>{e(run.job_text)}</pre></details>" if run.job_text else ""
        log = (
            f"<details><summary>End of the log</summary><pre>{e(run.log_tail)}</pre></details>" if run.log_tail else ""
        )
        inside = f"<div class=scroll><table>{table}</table></div>{words}{blocks}{job}{log}"
        parts.append(
            f"<details class='card run-card'><summary>{e(run.name)}</summary>{inside}</details>"
            if len(runs) > 1
            else f"<div class=card>{inside}</div>"
        )
    return "".join(parts)


def block_text(attributes):
    if "own_box" not in attributes:
        return ""
    (z0, y0, x0), (z1, y1, x1) = attributes["own_box"]
    slices = f"slices {z0} to {z1}, " if attributes.get("grid_depth", 1) > 1 or z1 > z0 + 1 else ""
    return f"{slices}rows {y0} to {y1}, columns {x0} to {x1}" if y1 > y0 and x1 > x0 else "empty"


def fit_body(fits, detail):
    """One block per run; page.js shows that of the run whose details are shown."""
    return "".join(
        f'<div class=fit data-run="{e(name)}"{"" if name == detail else " hidden"}>{fit_of_one(fit)}</div>'
        for name, fit in fits.items()
    )


def fit_of_one(fit):
    if fit is None:
        return (
            '<div class="card empty">This run says nothing about it: it has not ended, output.diagnostics is false, '
            "or it is of an older version.</div>"
        )
    warnings = (
        "<div class=notes><ul>" + "".join(f"<li>{e(text)}</li>" for text in fit["warnings"]) + "</ul></div>"
        if fit["warnings"]
        else "<p class=note>Nothing looks wrong.</p>"
    )
    figures = "".join(
        f'<div class="card picture"><figure><h3>{e(p["title"])}</h3><img src="{p["src"]}" alt="{e(p["caption"])}">'
        f'<div class=ramp style="background:{p["ramp"]}"></div><div class=ends>'
        + "".join(f"<span>{e(text)}</span>" for text in p["ends"])
        + f'</div><figcaption class=note>{e(p["caption"])}</figcaption></figure></div>'
        for p in fit["pictures"]
    )
    tiles = "".join(tile(*fact) for fact in fit["facts"])
    parts = fit_parts(fit["parts"]) if len(fit["parts"]) > 1 else ""
    return f'{warnings}<div class=tiles>{tiles}</div><div class="pictures still">{figures}</div>{parts}'


def fit_parts(parts):
    head = ["part", "samples", "chi2", "mean", "correlation", "at lag", "at largest"]
    rows = "".join(
        f"<tr><td class=n>{i}</td><td class=n>{p['samples']}</td><td class=n>{p['chi2']:.3f}</td>"
        f"<td class=n>{p['mean']:.3f}</td><td class=n>{p['correlation']:.3f}</td>"
        f"<td class=n>{p['correlation_lag'][0]}, {p['correlation_lag'][1]}</td>"
        f"<td class=n>{percent(p['at_largest'])}</td></tr>"
        for i, p in enumerate(parts)
    )
    heads = "".join(f"<th class=n>{e(h)}</th>" for h in head)
    return f'<div class="card scroll"><table><tr>{heads}</tr>{rows}</table></div>'


PICTURES = """<div class="head">
<span class=note>Drag to move, double click or +/- to zoom; all pictures move together.</span>
<div class=tools id=picture-tools>
<button id=zoom-out aria-label="zoom out">&minus;</button><span id=zoom>1.0&times;</span>
<button id=zoom-in aria-label="zoom in">+</button>
<button id=zoom-fit>fit</button><button id=zoom-pixels>pixels</button>
</div></div>
<div class=pictures id=pictures-here style="margin-top:.5rem"></div>
<div class=notes hidden><ul id=pictures-missing></ul></div>"""


# plotly is 4.7 MB as it stands, and 1.9 so. Every browser since 2023 unpacks it.
UNPACK = """(async () => {
  if (!window.DecompressionStream) { document.body.prepend("This browser is too old for the charts of this page."); return; }
  const bytes = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
  const plotly = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  for (const code of [plotly, document.getElementById("page").textContent]) {
    const script = document.createElement("script");
    script.textContent = code;
    document.body.append(script);
  }
})();"""


def packed(text):
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def html_page(title, headings, body, names, detail, charts, pictures, made):
    """headings: [(id of a section, its word in the bar)]; names: what the page is of; detail: the one of them whose
    details are shown first.
    """
    sources = {}  # of runs of one study, truth and measurement are the same
    for shown in pictures.values():
        for figure in shown["figures"]:
            figure["src"] = sources.setdefault(figure["src"], len(sources))
    data = {"sources": list(sources), "charts": charts, "pictures": pictures, "detail": detail, "runs": names}
    choice = "".join(f"<option>{e(name)}</option>" for name in names)
    many = len(names) > 1
    chooser = (
        f"<label class=room>details of <select id=run>{choice}</select></label>" if many else "<span class=room></span>"
    )
    nav = "".join(f'<a href="#{name}">{e(heading)}</a>' for name, heading in headings)
    safe = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1">
<meta http-equiv=Content-Security-Policy content="{POLICY}"><link rel=icon href="data:,">
<title>tessera: {e(title)}</title><style>{(HERE / 'page.css').read_text()}</style></head><body>
<header class=top><div class=bar><span class=brand>tessera report</span><nav>{nav}</nav>{chooser}
<button id=theme title="light or dark">&#9680;</button></div></header>
<main>{body}<footer>{e(made)} docs/report.md says how each figure is computed.</footer></main>
<script type=application/json id=report-data>{safe}</script>
<script type=text/plain id=plotly>{packed(get_plotlyjs())}</script>
<script type=text/plain id=page>{(HERE / 'page.js').read_text()}</script><script>{UNPACK}</script></body></html>
"""


def page(runs, plans, pictures, fits, made):
    """HTML. pictures: {run's name: {"figures": [...], "missing": [...]}}; fits: {run's name: fit_of(run)}; made: a line
    that says when and from what.
    """
    series = series_of(runs, "strong") + series_of(runs, "weak")
    many = len(runs) > 1
    detail = max(
        runs, key=lambda run: (status_class(run) != "bad", bool(pictures[run.name]["figures"]), len(run.ranks))
    ).name
    firsts = [again[0] for again in repeats(runs)]
    curves, scales, by_run = convergence(firsts), scaling_charts(series, plans), phases_by_run(repeats(runs))
    per_run = [(time_of(run), communication_of(run), memory_of(run) + disk_of(run)) for run in runs]
    everything = curves + scales + [by_run] + [c for groups in per_run for g in groups for c in g]
    has_data = {c["name"] for c in everything if c["data"]}
    time, communication, memory = per_run[0]

    def cards(charts, width="", of=""):
        full = "".join(chart_card(c, of) for c in charts if c["name"] in has_data)
        grid = f"<div class='grid{width}'>{full}</div>" if full else ""
        return grid + not_shown([c for c in charts if c["name"] not in has_data])

    title = f"{len(runs)} runs" if many else runs[0].name
    sections = [
        (
            "summary",
            "Summary",
            f"<h1>{e(title)}</h1><p class=sub>{e(made)}</p><div class=tiles>"
            + (tiles_of_many(runs, series) if many else tiles_of_one(runs[0]))
            + "</div>"
            + notes(runs)
            + (runs_table(runs) if many else ""),
        ),
        ("pictures", "Pictures", PICTURES),
        ("fit", "Does the result fit the data?", fit_body(fits, detail)),
        (
            "convergence",
            "Convergence",
            cards(curves) + ("" if len(firsts) == len(runs) else "<p class=note>Of repeated runs, the first.</p>"),
        ),
        ("scaling", "Scaling", scaling_table(rows_of(series, plans)) + cards(scales)),
        ("time", "Time", cards([by_run, time[1], time[0], time[2]], of=detail if many else "")),
        ("communication", "Communication", cards(communication)),
        ("memory", "Memory", cards(memory, " three")),
        ("compare", "Comparison", compare(runs)),
        ("machine", "Machine", machine(runs)),
    ]
    if many and len({row["ranks"] for row in rows_of(series, plans)}) > 1:  # a study
        sections.insert(1, sections.pop([name for name, _, _ in sections].index("scaling")))
    leave_out = set() if many else {"compare"} | (set() if plans else {"scaling"})  # with itself
    if all(run.rank_count == 1 for run in runs):
        leave_out.add("communication")
    sections = [s for s in sections if s[0] not in leave_out]
    of_run = {"pictures", "fit", "communication", "memory"}
    body = sections[0][2].join(("<section id=summary>", "</section>")) + "".join(
        section(name, heading, inside, detail if name in of_run else None, many)
        for name, heading, inside in sections[1:]
    )
    charts = [c for c in everything if c["name"] in has_data and (many or plans or c not in scales)]
    short = {"fit": "Fit"}
    headings = [(name, short.get(name, heading)) for name, heading, _ in sections]
    return html_page(title, headings, body, [run.name for run in runs], detail, charts, pictures, made)
