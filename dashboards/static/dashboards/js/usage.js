// Charts of pages that do not move: `data-figure` holds a Plotly figure as JSON. A colour may be the
// name of a token, so a change of theme draws anew.
const root = document.documentElement;
const NARROW = window.matchMedia("(max-width: 700px)");
const CONFIG = { displayModeBar: false, responsive: true };

function token(name) {
  return getComputedStyle(root).getPropertyValue(name).trim();
}

function coloured(value) {
  if (typeof value === "string") return value.startsWith("--hw-") ? token(value) : value;
  if (Array.isArray(value)) return value.map(coloured);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one)]));
}

// On a phone every other label goes, for want of room.
function thinned(axis) {
  if (!NARROW.matches || !axis.tickvals) return axis;
  const isKept = (_, place) => place % 2 === 0;
  return { ...axis, tickvals: axis.tickvals.filter(isKept), ticktext: axis.ticktext.filter(isKept) };
}

function layoutOf({ xaxis = {}, yaxis = {}, ...rest }) {
  return coloured({
    margin: { l: 52, r: 12, t: 8, b: 26 },
    showlegend: false,
    autosize: true,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { size: 11, color: "--hw-axis" },
    hovermode: "closest",
    hoverlabel: { bgcolor: "--hw-surface-3", bordercolor: "--hw-border-2", font: { size: 12, color: "--hw-text" } },
    xaxis: { showgrid: false, zeroline: false, showline: true, linecolor: "--hw-border-2", ticks: "outside", ticklen: 3, tickcolor: "--hw-border-2", fixedrange: true, ...thinned(xaxis) },
    yaxis: { gridcolor: "--hw-grid", zeroline: false, nticks: 5, fixedrange: true, ...yaxis },
    ...rest,
  });
}

function draw(element) {
  const { data, layout } = JSON.parse(element.dataset.figure);
  window.Plotly.react(element, coloured(data), layoutOf(layout), CONFIG);
}

function drawIn(scope) {
  for (const element of scope.querySelectorAll("[data-figure]")) draw(element);
}

drawIn(document);
document.addEventListener("htmx:load", (event) => {
  if (event.target !== document.body) drawIn(event.target.parentNode ?? event.target);
});
document.addEventListener("headworks:theme", () => drawIn(document));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawIn(document));
