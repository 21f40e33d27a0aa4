// One panel: its figure from the document, the newest buckets from messages, drawn by Plotly.
// The server says what is shown; colours are the theme's and are put in here.
import { bucketWords, written } from "./live-time.js";

const SVG = document.querySelector("svg").namespaceURI;
const MARKER_PX = 5;
const ROOM_ABOVE = 1.08;
const WORDS_PX = 52;
const MARGIN = { l: 46, r: 12, t: 8, b: 22 };
const NARROW = window.matchMedia("(max-width: 700px)");
const TOUCH = window.matchMedia("(pointer: coarse)");
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };
const DASHES = { dot: "2 3", dash: "6 3", solid: "" };

function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--hw-${name}`).trim();
}

export function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function joined(values, fold) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (!known.length) return null;
  if (fold === "most") return Math.max(...known);
  const sum = known.reduce((one, other) => one + other, 0);
  return fold === "mean" ? sum / known.length : sum;
}

function runs(missing) {
  const found = [];
  let first = -1;
  [...missing, false].forEach((isMissing, place) => {
    if (isMissing && first < 0) first = place;
    if (!isMissing && first >= 0) {
      found.push([first, place - 1]);
      first = -1;
    }
  });
  return found;
}

export class Chart {
  constructor(element, page) {
    this.element = element;
    this.page = page;
    this.plot = element.querySelector("[data-chart]");
    this.table = element.querySelector("[data-table]");
    this.legend = element.querySelector("[data-legend]");
    this.toggle = element.querySelector("[data-table-toggle]");
    this.toggle.addEventListener("click", () => this.showTable(this.table.hidden));
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => page.setCross(null));
    this.plot.addEventListener("pointerdown", () => page.hold());
    this.cross = document.createElementNS(SVG, "line");
    this.figure = null;
  }

  load(panel) {
    this.figure = panel.figure;
    this.say(panel);
    this.makeLegend();
  }

  say(panel) {
    setText(this.element.querySelector("[data-sentence]"), panel.sentence);
    setText(this.element.querySelector("[data-now]"), panel.now);
  }

  // Put in the newest buckets; false if a series came up that the figure has no trace for.
  merge(panel, change) {
    this.say(panel);
    const { data, meta } = this.figure;
    for (const trace of data) {
      trace.x = this.page.at.map((second) => second * 1000);
      for (let i = 0; i < change.added; i += 1) trace.y.push(null);
      trace.y.splice(0, change.dropped);
      change.places.forEach((place, i) => {
        const absent = meta.form === "bars" && this.page.covered[place] > 0 ? 0 : null;
        const values = trace.meta.of.map((key) => panel.values[key]?.[i] ?? null);
        trace.y[place] = joined(values, trace.meta.fold) ?? absent;
      });
    }
    const known = new Set(data.flatMap((trace) => trace.meta.of));
    return Object.keys(panel.values).every((key) => known.has(key));
  }

  missing() {
    const isOfGateways = this.figure.meta.gaps === "gateways";
    const missing = isOfGateways
      ? this.page.covered.map((share) => share === 0)
      : this.page.at.map((_, i) => this.figure.data.every((trace) => trace.y[i] === null));
    // a bucket that has just begun is no gap yet
    if (this.page.isPartial && missing.length > 1 && !missing.at(-2)) missing[missing.length - 1] = false;
    return missing;
  }

  top() {
    const { meta, data } = this.figure;
    if (meta.top !== null) return meta.top;
    const sums = this.page.at.map((_, i) => {
      const values = data.map((trace) => trace.y[i] ?? 0);
      if (!values.length) return 0;
      return meta.form === "bars" ? values.reduce((a, b) => a + b, 0) : Math.max(...values);
    });
    const highest = Math.max(0, ...sums);
    return highest ? highest * ROOM_ABOVE : 1;
  }

  traces() {
    const last = this.page.at.length - 1;
    return this.figure.data.map((trace) => {
      const colour = token(`s${trace.meta.slot}`);
      if (trace.type === "bar") {
        const opacity = trace.y.map((_, i) => (i === last && this.page.isPartial ? 0.55 : 0.9));
        return { ...trace, marker: { color: colour, opacity, line: { width: 0 } } };
      }
      const sizes = trace.y.map((value, i) => {
        const isAlone = (trace.y[i - 1] ?? null) === null && (trace.y[i + 1] ?? null) === null;
        return value !== null && isAlone ? MARKER_PX : 0;
      });
      const mode = sizes.some((size) => size) ? "lines+markers" : "lines";
      const line = { ...trace.line, color: colour };
      return { ...trace, mode, line, marker: { size: sizes, color: colour, line: { width: 0 } } };
    });
  }

  bands() {
    const { at, bucketS } = this.page;
    const half = bucketS * 500;
    const axis = token("axis");
    const shapes = [];
    const annotations = [];
    const missing = this.missing();
    for (const [first, last] of runs(missing)) {
      const x0 = at[first] * 1000 - half;
      const x1 = at[last] * 1000 + half;
      const place = { xref: "x", yref: "paper", y0: 0, y1: 1 };
      shapes.push({ type: "rect", ...place, x0, x1, layer: "below", line: { width: 0 }, fillcolor: axis, opacity: 0.16 });
      const isWhole = last - first + 1 === at.length;
      const [from, to] = this.page.range();
      const widthPx = ((x1 - x0) / (to - from)) * (this.plot.clientWidth - MARGIN.l - MARGIN.r);
      annotations.push({
        xref: "x", yref: "paper", x: (x0 + x1) / 2, y: 0.5, showarrow: false,
        textangle: widthPx < WORDS_PX ? -90 : 0,
        text: isWhole ? "no data yet" : "no data", font: { size: 11, color: token("text-2") },
      });
    }
    return { shapes, annotations };
  }

  // Figures only where there is something to scale by: an empty axis says nothing.
  ticks() {
    const { measure, top } = this.figure.meta;
    const known = this.figure.data.flatMap((trace) => trace.y.filter((value) => value !== null));
    if (top === null && !known.some((value) => value)) return { tickvals: known.length ? [0] : [] };
    const highest = this.top();
    const isShort = measure === "bytes" || (measure === "per_second" && highest >= 1000);
    const tickformat = isShort ? ".3~s" : highest >= 10 ? ",.0f" : ",.3~r";
    return measure === "count" && highest < 5 ? { tickformat, dtick: 1 } : { tickformat, nticks: 5 };
  }

  layout() {
    const { at, bucketS, zone } = this.page;
    const { values, labels } = zone.ticks(at, bucketS, NARROW.matches ? 5 : 7);
    const axis = token("axis");
    const edge = token("border-2");
    const { measure } = this.figure.meta;
    return {
      ...this.bands(), margin: MARGIN, showlegend: false, autosize: true, barmode: "stack",
      bargap: 0.08, hovermode: false, dragmode: TOUCH.matches ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { size: 11, color: axis },
      // milliseconds, not dates: of a number Plotly makes a date by the clock of the browser's own zone
      xaxis: {
        type: "linear", range: this.page.range(), tickvals: values, ticktext: labels,
        showgrid: false, zeroline: false, showline: true, linecolor: edge, ticks: "outside",
        ticklen: 3, tickcolor: edge, fixedrange: TOUCH.matches,
      },
      yaxis: {
        range: [0, this.top()], gridcolor: token("grid"), zeroline: false,
        ...this.ticks(), tickprefix: measure === "dollars" ? "$" : "",
        ticksuffix: measure === "bytes" ? "B" : "", fixedrange: true, exponentformat: "SI",
      },
    };
  }

  async draw() {
    if (!this.figure || !this.page.at.length) return;
    this.foot();
    if (this.table.hidden) {
      const isNew = !this.plot.classList.contains("js-plotly-plot");
      await window.Plotly.react(this.plot, this.traces(), this.layout(), CONFIG);
      if (isNew) this.dress();
    } else {
      this.fillTable();
    }
    this.element.dataset.drawn = String(this.page.at.at(-1));
  }

  // What is added to Plotly's element once: the crosshair, and the ear for a zoom.
  dress() {
    const overlay = document.createElementNS(SVG, "svg");
    overlay.setAttribute("class", "live-cross");
    overlay.append(this.cross);
    this.plot.append(overlay);
    this.plot.on("plotly_relayout", (change) => {
      const from = change["xaxis.range[0]"];
      if (from !== undefined) this.page.zoom(from, change["xaxis.range[1]"]);
    });
    this.plot.on("plotly_doubleclick", () => this.page.zoomOut());
  }

  foot() {
    const { at, bucketS, zone, isPartial, coverage } = this.page;
    const end = (at.at(-1) + bucketS) * 1000;
    setText(this.element.querySelector("[data-buckets]"), bucketWords(bucketS));
    setText(this.element.querySelector("[data-zone]"), zone.name);
    const partial = isPartial ? " (partial)" : "";
    const gateways = coverage.seen ? `, ${coverage.live} of ${coverage.seen} gateways` : "";
    setText(this.element.querySelector("[data-until]"), `to ${zone.clock(end)}${partial}${gateways}`);
  }

  makeLegend() {
    this.legend.replaceChildren(
      ...this.figure.data.map((trace) => {
        const item = document.createElement("span");
        const mark = document.createElementNS(SVG, "svg");
        mark.setAttribute("viewBox", "0 0 18 8");
        mark.setAttribute("class", `k${trace.meta.slot}`);
        mark.setAttribute("aria-hidden", "true");
        const shape = document.createElementNS(SVG, trace.type === "bar" ? "rect" : "line");
        const box = trace.type === "bar" ? { x: 4, y: 0, width: 10, height: 8 } : { x1: 0, y1: 4, x2: 18, y2: 4 };
        for (const [name, value] of Object.entries(box)) shape.setAttribute(name, value);
        if (trace.line) shape.setAttribute("stroke-dasharray", DASHES[trace.line.dash] ?? "");
        mark.append(shape);
        const value = document.createElement("span");
        value.className = "live-value";
        item.append(mark, trace.name, value);
        return item;
      }),
    );
  }

  // The crosshair: the pointer's bucket, in all charts at once; the legend tells the values there.
  point(event) {
    if (!this.page.at.length || !this.figure) return;
    const box = this.plot.getBoundingClientRect();
    const width = box.width - MARGIN.l - MARGIN.r;
    const share = (event.clientX - box.left - MARGIN.l) / width;
    if (share < 0 || share > 1) return this.page.setCross(null);
    const [from, to] = this.page.range();
    const bucketMs = this.page.bucketS * 1000;
    const ms = from + share * (to - from);
    this.page.setCross(Math.round((ms - this.page.at[0] * 1000) / bucketMs));
  }

  showCross(place) {
    const second = place === null ? undefined : this.page.at[place];
    const values = this.legend.querySelectorAll(".live-value");
    this.figure?.data.forEach((trace, i) => {
      const text = second === undefined ? "" : written(trace.y[place], this.figure.meta.measure);
      setText(values[i], text);
    });
    this.cross.classList.toggle("is-on", second !== undefined);
    if (second === undefined) return this.foot();
    const [from, to] = this.page.range();
    const width = this.plot.clientWidth - MARGIN.l - MARGIN.r;
    const x = MARGIN.l + ((second * 1000 - from) / (to - from)) * width;
    const ends = { x1: x, x2: x, y1: MARGIN.t, y2: this.plot.clientHeight - MARGIN.b };
    for (const [name, value] of Object.entries(ends)) this.cross.setAttribute(name, value.toFixed(1));
    setText(this.element.querySelector("[data-until]"), this.page.zone.moment(second * 1000));
  }

  showTable(isShown) {
    this.table.hidden = !isShown;
    this.plot.hidden = isShown;
    this.toggle.setAttribute("aria-expanded", String(isShown));
    const label = isShown ? "View as chart" : "View as table";
    this.toggle.title = label;
    setText(this.toggle.querySelector("span"), label);
    this.draw();
  }

  fillTable() {
    const { at, zone, covered } = this.page;
    const table = document.createElement("table");
    table.className = "tbl";
    const head = table.createTHead().insertRow();
    for (const name of [`Bucket, ${zone.name}`, ...this.figure.data.map((trace) => trace.name)]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      if (head.cells.length) cell.className = "num";
      cell.textContent = name;
      head.append(cell);
    }
    const body = table.createTBody();
    for (let i = at.length - 1; i >= 0; i -= 1) {
      const row = body.insertRow();
      row.insertCell().textContent = zone.moment(at[i] * 1000);
      for (const trace of this.figure.data) {
        const cell = row.insertCell();
        cell.className = "num";
        const isGap = trace.y[i] === null && covered[i] === 0;
        cell.textContent = isGap ? "no data" : written(trace.y[i], this.figure.meta.measure);
      }
    }
    this.table.replaceChildren(table);
  }
}
