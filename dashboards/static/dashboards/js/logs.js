// A log that grows: it stays at its end while its reader is there, else where the reader is.
const NEAR_PX = 24;

let place = null;

function log() {
  return document.getElementById("log-text");
}

function isOfLog(event) {
  return event.detail.target?.id === "log";
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!event.target.matches?.("#log[data-poll]")) return;
  const isSelecting = !document.getSelection().isCollapsed;
  if (document.hidden || isSelecting) event.preventDefault();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const element = log();
  if (!isOfLog(event) || !element) return;
  const rest = element.scrollHeight - element.scrollTop - element.clientHeight;
  place = rest < NEAR_PX ? null : element.scrollTop;
});
document.addEventListener("htmx:afterSwap", (event) => {
  const element = log();
  if (!isOfLog(event) || !element) return;
  element.scrollTop = place ?? element.scrollHeight;
});
