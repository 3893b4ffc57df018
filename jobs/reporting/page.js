// SPDX-License-Identifier: BSD-3-Clause
// Draws the charts of #report-data, and lets pictures be moved and zoomed together.
"use strict";
(() => {
  const errors = [];
  window.addEventListener("error", (e) => errors.push(String(e.message)));
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const $ = (id) => document.getElementById(id);

  // --- theme ---------------------------------------------------------------------------------------------------------
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = new URLSearchParams(location.search).get("theme");
  const show_theme = () => { root.dataset.theme = chosen || (system.matches ? "dark" : "light"); };
  show_theme();
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 700;

  // 1, 2, 5 and so on where the values span up to four powers of ten; powers beyond; plotly's choice within less than one.
  function log_ticks(data, key) {
    const own = (trace) => (trace.yaxis || "y") === key.replace("axis", "") && Array.isArray(trace.y);
    const values = data.filter(own).flatMap((trace) => trace.y).filter((v) => v > 0);
    const decades = Math.log10(values.reduce((a, b) => Math.max(a, b)) / values.reduce((a, b) => Math.min(a, b)));
    return decades > 4 ? Math.ceil(decades / 6) : decades > 0.7 ? "D2" : undefined;
  }

  function with_theme(layout, data) {
    const out = structuredClone(layout);
    const soft = color("--soft"), grid = color("--grid"), line = color("--line");
    out.paper_bgcolor = out.plot_bgcolor = "rgba(0,0,0,0)";
    out.font = { color: soft, size: 12, family: getComputedStyle(document.body).fontFamily };
    out.margin = { l: 64, r: out.yaxis2 ? 64 : 16, t: 8, b: 48 };
    out.legend = { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { size: 11.5 }, bgcolor: "rgba(0,0,0,0)" };
    if (narrow() && data.every((trace) => (trace.name || "").length <= 14)) Object.assign(out.legend, { entrywidth: 0.48, entrywidthmode: "fraction" });
    out.modebar = { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: color("--text") };
    out.hoverlabel = { bgcolor: color("--card"), bordercolor: line, font: { color: color("--text") } };
    out.hovermode = out.hovermode || "closest";
    const bars = data[0].type === "bar" ? data[0].x.length : 99;
    out.bargap = Math.max(0.25, 1 - 0.13 * bars);
    for (const key of ["xaxis", "yaxis", "yaxis2"]) {
      const axis = out[key];
      if (!axis) continue;
      axis.gridcolor = grid;
      axis.linecolor = line;
      axis.zerolinecolor = line;
      axis.automargin = true;
      if (axis.title) axis.title.standoff = 8;
      if (axis.type === "log") {
        axis.tickformat = ".3~g";
        if (!axis.tickmode) axis.dtick = log_ticks(data, key);
      }
    }
    return out;
  }

  // Some colors are too dark on dark ground, and one would then be too near to another.
  const in_theme = (text) => root.dataset.theme !== "dark" ? text : text
    .replaceAll("#56B4E9", "#A5DCFB").replaceAll("#0072B2", "#3D97DB").replaceAll("#8A7A00", "#B5A642");

  // --- charts --------------------------------------------------------------------------------------------------------
  // On touch the tools would stay, over what is drawn; nothing is sent anywhere.
  const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], showSendToCloud: false,
    displayModeBar: window.matchMedia("(hover: none)").matches ? false : "hover", toImageButtonOptions: { format: "svg" } };
  let run = new URLSearchParams(location.search).get("run") || report.detail;
  if (!report.runs.includes(run)) run = report.detail;
  const current = (name) => report.charts.find((c) => c.name === name && (c.run === null || c.run === run));

  function draw(box) {
    const chart = current(box.dataset.chart);
    const plot = box.querySelector(".plot"), empty = box.querySelector(".empty");
    box.querySelector(".note").textContent = chart.data.length ? chart.note : "";
    empty.hidden = chart.data.length > 0;
    plot.hidden = chart.data.length === 0;
    empty.textContent = chart.empty;
    box.classList.toggle("slim", chart.data.length === 0);
    if (!chart.data.length) { Plotly.purge(plot); return null; }
    const first = chart.data[0];
    const layout = with_theme(chart.layout, chart.data);
    if (chart.data.length < 2 && !first.showlegend) layout.showlegend = false;
    const many = chart.data.length > (narrow() ? 6 : 10);
    if (many) layout.showlegend = false;
    if (many && report.runs.length > 1 && chart.run === null) box.querySelector(".note").textContent += " Lines as in the table of runs.";
    return Plotly.react(plot, JSON.parse(in_theme(JSON.stringify(chart.data))), layout, options);
  }
  const boxes = [...document.querySelectorAll("[data-chart]")];
  const draw_all = (some = boxes) => Promise.all(some.map(draw));

  const select = $("run");
  if (select) {
    select.value = run;
    const name_it = () => { for (const span of document.querySelectorAll(".run-name")) span.textContent = run; };
    name_it();
    select.addEventListener("change", () => {
      run = select.value;
      name_it();
      draw_all(boxes.filter((b) => b.dataset.perRun));
      show_pictures();
      show_fit();
    });
  }
  $("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    show_theme();
    draw_all();
  });
  system.addEventListener("change", () => { show_theme(); draw_all(); });

  // --- pictures: all show the same region ------------------------------------------------------------------------------
  const view = { zoom: 1, x: 0, y: 0 };  // x, y: what part of the picture, 0 to 1, lies at the left and upper edge
  let panels = [], compared = [];  // boxes with a picture each; of the slider, the two that lie in one box

  function place() {
    view.zoom = Math.min(Math.max(view.zoom, 1), 64);
    const most = 1 - 1 / view.zoom;
    view.x = Math.min(Math.max(view.x, 0), most);
    view.y = Math.min(Math.max(view.y, 0), most);
    for (const { box, image, labels } of [...panels, ...compared]) {
      const scale = view.zoom * box.clientWidth / image.naturalWidth;
      image.style.transform = `translate(${-view.x * view.zoom * box.clientWidth}px, ${-view.y * view.zoom * box.clientHeight}px) scale(${scale}, ${view.zoom * box.clientHeight / image.naturalHeight})`;
      image.classList.toggle("close", scale >= 2);
      box.classList.toggle("zoomed", view.zoom > 1);
      for (const { span, u, v } of labels) {
        span.style.left = `${(u - view.x) * view.zoom * box.clientWidth}px`;
        span.style.top = `${(v - view.y) * view.zoom * box.clientHeight}px`;
      }
    }
    $("zoom").textContent = `${view.zoom < 9.95 ? view.zoom.toFixed(1) : Math.round(view.zoom)}\u00d7`;
  }
  function zoom_at(factor, u = 0.5, v = 0.5) {  // u, v: the point of the box that stays
    const before = view.zoom;
    view.zoom = Math.min(Math.max(before * factor, 1), 64);
    view.x += u / before - u / view.zoom;
    view.y += v / before - v / view.zoom;
    place();
  }
  function listen(box) {
    const fingers = new Map();
    const at = (e) => { const r = box.getBoundingClientRect(); return [(e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height]; };
    box.addEventListener("pointerdown", (e) => { fingers.set(e.pointerId, at(e)); box.setPointerCapture(e.pointerId); box.classList.add("dragging"); });
    box.addEventListener("pointermove", (e) => {
      const old = fingers.get(e.pointerId);
      if (!old) return;
      const now = at(e);
      const other = [...fingers].find(([id]) => id !== e.pointerId);
      if (other) {
        const reach = (p) => Math.hypot(p[0] - other[1][0], p[1] - other[1][1]) || 1e-6;
        zoom_at(reach(now) / reach(old), (now[0] + other[1][0]) / 2, (now[1] + other[1][1]) / 2);
      }
      view.x -= (now[0] - old[0]) / view.zoom / (other ? 2 : 1);
      view.y -= (now[1] - old[1]) / view.zoom / (other ? 2 : 1);
      fingers.set(e.pointerId, now);
      place();
    });
    const up = (e) => { fingers.delete(e.pointerId); if (!fingers.size) box.classList.remove("dragging"); };
    box.addEventListener("pointerup", up);
    box.addEventListener("pointercancel", up);
    box.addEventListener("dblclick", (e) => zoom_at(2, ...at(e)));
    box.addEventListener("wheel", (e) => {  // with a key, or once zoomed in; else the page scrolls
      if (!e.ctrlKey && !e.metaKey && view.zoom === 1) return;
      e.preventDefault();
      zoom_at(Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.002)), ...at(e));
    }, { passive: false });
    box.addEventListener("keydown", (e) => {
      const step = 0.1 / view.zoom;
      const keys = { "+": () => zoom_at(1.5), "-": () => zoom_at(1 / 1.5), 0: () => { view.zoom = 1; place(); },
        ArrowLeft: () => { view.x -= step; place(); }, ArrowRight: () => { view.x += step; place(); },
        ArrowUp: () => { view.y -= step; place(); }, ArrowDown: () => { view.y += step; place(); } };
      if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
    });
  }
  // Before and after in one box, parted by a line that a slider moves: of pictures of one shape.
  function compare(figures, place_for) {
    const [before, after] = ["before", "after"].map((title) => figures.find((f) => f.title === title));
    if (!before || !after || Math.abs(before.width * after.height / (before.height * after.width) - 1) > 0.01) return;
    const card = document.createElement("div");
    card.className = "card picture compare";
    card.innerHTML = "<figure><h3>before | after</h3><div class=view tabindex=0><img draggable=false alt=after><div class=left><img draggable=false alt=before></div><div class=part></div></div>" +
      "<input type=range min=0 max=100 value=50 aria-label='how much of the picture is shown as it was before'></figure>";
    const box = card.querySelector(".view"), slider = card.querySelector("input"), images = [...card.querySelectorAll("img")];
    box.style.aspectRatio = `${after.width} / ${after.height}`;
    [after, before].forEach((figure, i) => {
      images[i].addEventListener("load", place);
      images[i].src = report.sources[figure.src];
      compared.push({ box, image: images[i], labels: [] });
    });
    const part = () => box.style.setProperty("--part", `${slider.value}%`);
    slider.addEventListener("input", part);
    part();
    place_for.append(card);
    listen(box);
  }
  function show_pictures() {
    const { figures, missing } = report.pictures[run] || { figures: [], missing: ["No pictures were made for this run."] };
    const place_for = $("pictures-here");
    place_for.replaceChildren();
    panels = [];
    compared = [];
    for (const figure of figures) {
      const card = document.createElement("div");
      card.className = "card picture";
      card.innerHTML = "<figure><h3></h3><div class=view tabindex=0><img draggable=false></div><figcaption class=note></figcaption></figure>";
      card.querySelector("h3").textContent = figure.title;
      card.querySelector("figcaption").textContent = figure.caption;
      const box = card.querySelector(".view"), image = card.querySelector("img");
      box.style.aspectRatio = `${figure.width} / ${figure.height}`;
      image.alt = `${figure.title}: ${figure.caption}`;
      image.addEventListener("load", place);
      image.src = report.sources[figure.src];
      if (figure.ramp) {
        const ramp = document.createElement("div");
        ramp.innerHTML = "<div class=ramp></div><div class=ends><span></span><span></span></div>";
        ramp.firstChild.style.background = `linear-gradient(to right, ${figure.ramp.colors.join(", ")})`;
        ramp.querySelectorAll("span").forEach((s, i) => { s.textContent = figure.ramp.ends[i]; });
        card.querySelector(".view").after(ramp);
      }
      const labels = (figure.labels || []).map(([text, u, v]) => {
        const span = document.createElement("span");
        span.className = "label";
        span.textContent = text;
        box.append(span);
        return { span, u, v };
      });
      place_for.append(card);
      panels.push({ box, image, labels });
      listen(box);
    }
    compare(figures, place_for);
    $("picture-tools").hidden = figures.length === 0;
    const list = $("pictures-missing");
    list.replaceChildren(...missing.map((text) => { const li = document.createElement("li"); li.textContent = text; return li; }));
    list.parentElement.hidden = missing.length === 0;
  }
  const loaded = (image) => image.complete || new Promise((done) => image.addEventListener("load", done));
  function show_fit() {
    for (const block of document.querySelectorAll(".fit")) block.hidden = block.dataset.run !== run;
  }
  $("zoom-in").addEventListener("click", () => zoom_at(1.5));
  $("zoom-out").addEventListener("click", () => zoom_at(1 / 1.5));
  $("zoom-fit").addEventListener("click", () => { view.zoom = 1; place(); });
  $("zoom-pixels").addEventListener("click", () => {
    if (panels.length) zoom_at(panels[0].image.naturalWidth / window.devicePixelRatio / panels[0].box.clientWidth * 4 / view.zoom);
  });
  window.addEventListener("resize", place);

  // --- which section is in sight -----------------------------------------------------------------------------------------
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries)
      if (e.isIntersecting) for (const [id, a] of links) a.classList.toggle("here", id === e.target.id);
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of links.keys()) seen.observe($(id));

  // --- self check: what was drawn, for tests and for whoever asks ----------------------------------------------------------
  function self_check() {
    const charts = {};
    for (const box of boxes) {
      const plot = box.querySelector(".plot");
      const points = (plot.calcdata || []).map((trace) => {
        const z = plot._fullData[trace[0].trace.index].z;
        return z ? z.length * z[0].length : trace.filter((p) => p.x !== undefined || p.p !== undefined).length;
      });
      charts[box.dataset.chart] = plot.hidden ? { empty: box.querySelector(".empty").textContent } : { traces: points.length, points };
    }
    const fit = [...document.querySelectorAll(".fit:not([hidden]) img")].map((i) => [i.naturalWidth, i.naturalHeight]);
    const cut = [...document.querySelectorAll("nav, .wide")].filter((b) => b.scrollWidth > b.clientWidth + 1).map((b) => b.className || b.tagName);
    return { charts, errors, fit, cut, compared: compared.map((p) => [p.image.naturalWidth, p.image.naturalHeight]), pictures: panels.map((p) => [p.image.naturalWidth, p.image.naturalHeight]) };
  }
  window.tesseraReport = { report, self_check, view, zoom_at };

  show_pictures();
  show_fit();
  draw_all().then(() => Promise.all([...[...panels, ...compared].map((p) => p.image.decode()), ...[...document.querySelectorAll(".fit img")].map(loaded)])).catch((e) => errors.push(String(e))).finally(() => {
    place();
    const said = document.createElement("script");
    said.type = "application/json";
    said.id = "self-check";
    said.textContent = JSON.stringify(self_check());
    document.body.append(said);
  });
})();
