// What is on a live page beside the charts: tiles, what needs attention, the table of pools.
import { setText } from "./live-chart.js";

const SVG = document.querySelector("svg").namespaceURI;
const WIDTH = 100;
const HEIGHT = 30;

export function icon(name, tone = "") {
  const image = document.createElementNS(SVG, "svg");
  image.setAttribute("class", `ic ${tone}`.trim());
  image.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  image.append(use);
  return image;
}

function sparkline(values) {
  const highest = Math.max(...values.map((value) => value ?? 0), 0) || 1;
  const x = (i) => ((i / Math.max(values.length - 1, 1)) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - 1 - (value / highest) * (HEIGHT - 3)).toFixed(1);
  let line = "";
  let area = "";
  let run = [];
  const close = () => {
    if (run.length > 1) {
      const path = run.map((i) => `${x(i)} ${y(values[i])}`).join("L");
      line += `M${path}`;
      area += `M${x(run[0])} ${HEIGHT}L${path}L${x(run.at(-1))} ${HEIGHT}Z`;
    }
    run = [];
  };
  values.forEach((value, i) => (value === null ? close() : run.push(i)));
  close();
  return { line, area };
}

export function showTiles(root, tiles, lines) {
  for (const element of root.querySelectorAll("[data-tile]")) {
    const tile = tiles[element.dataset.tile];
    if (!tile) continue;
    setText(element.querySelector("[data-tile-text]"), tile.text || "–");
    setText(element.querySelector("[data-tile-unit]"), tile.unit);
    setText(element.querySelector("[data-tile-note]"), tile.note);
    const { line, area } = sparkline(lines[element.dataset.tile] ?? []);
    element.querySelector(".line").setAttribute("d", line);
    element.querySelector(".area").setAttribute("d", area);
  }
}

function span(className, ...children) {
  const made = document.createElement("span");
  made.className = className;
  made.append(...children);
  return made;
}

function linkTo(url, text) {
  if (!url) return text;
  const link = document.createElement("a");
  link.href = url;
  link.textContent = text;
  return link;
}

// Lists are made anew only when they say something new, so that focus and selection stay.
function isNews(element, value) {
  const text = JSON.stringify(value);
  if (!element || element.dataset.shown === text) return false;
  element.dataset.shown = text;
  return true;
}

function needUrl(need, { poolUrl, alertUrl, budgetUrl }) {
  if (need.alert_id) return alertUrl(need.alert_id);
  if (need.budget_id) return budgetUrl(need.budget_id);
  return need.pool_id && poolUrl(need.pool_id);
}

export function showNeeds(root, needs, urls) {
  const list = root.querySelector("[data-needs]");
  if (!isNews(list, needs)) return;
  setText(root.querySelector("[data-needs-count]"), needs.length ? String(needs.length) : "");
  const items = needs.map((need) => {
    const item = document.createElement("li");
    const title = linkTo(needUrl(need, urls), need.title);
    item.append(icon(need.icon, need.tone), span("t", title, span("d", need.detail)));
    return item;
  });
  if (!items.length) {
    const item = document.createElement("li");
    item.append(icon("ok", "ok"), span("t", "Nothing needs attention"));
    items.push(item);
  }
  list.replaceChildren(...items);
}

function meter(share) {
  const image = document.createElementNS(SVG, "svg");
  image.setAttribute("class", "meter");
  image.setAttribute("aria-hidden", "true");
  for (const [name, width] of [["t", 1], [share >= 0.85 ? "f w" : "f", share]]) {
    const bar = document.createElementNS(SVG, "rect");
    bar.setAttribute("class", name);
    bar.setAttribute("width", `${Math.min(width, 1) * 100}%`);
    bar.setAttribute("height", "6");
    bar.setAttribute("rx", "2");
    image.append(bar);
  }
  return image;
}

function poolRow(pool, poolUrl) {
  const row = document.createElement("tr");
  const cell = (className, label, ...children) => {
    const made = row.insertCell();
    if (className) made.className = className;
    if (label) made.dataset.l = label;
    made.append(...children);
  };
  cell("mono", "", linkTo(poolUrl(pool.id), pool.name));
  cell("opt", "", pool.model);
  const state = span(`st ${pool.tone}`, icon(pool.icon), pool.state);
  if (pool.reason) state.title = pool.reason;
  cell("", "", state);
  cell("num", "Ready", pool.ready);
  cell("nw", "KV", ...(pool.kv_used === null ? [pool.kv] : [meter(pool.kv_used), pool.kv]));
  cell("num opt", "", pool.queue);
  cell("num", "TTFT p95", pool.first_token);
  cell("num opt", "", pool.cost);
  return row;
}

export function showPools(root, pools, poolUrl) {
  const body = root.querySelector("[data-pools]");
  if (!isNews(body, pools)) return;
  setText(root.querySelector("[data-pools-count]"), String(pools.length));
  const rows = pools.map((pool) => poolRow(pool, poolUrl));
  if (!rows.length) {
    const row = document.createElement("tr");
    const cell = row.insertCell();
    cell.colSpan = 8;
    cell.className = "sec";
    cell.textContent = "No pool yet.";
    rows.push(row);
  }
  body.replaceChildren(...rows);
}

export function showCoverage(root, coverage) {
  const element = root.querySelector("[data-live-coverage]");
  if (!isNews(element, coverage)) return;
  const isWhole = coverage.seen > 0 && coverage.live === coverage.seen;
  element.className = `st ${isWhole ? "ok" : "warn"}`;
  element.replaceChildren(icon(isWhole ? "ok" : "nodata"), coverage.sentence);
}
