// The page of newest rows: keeps asking while it is watched, and says so when no answer comes.
const STALE_AFTER_MS = 6000;
const TICK_MS = 1000;

let answeredAt = Date.now();

function pill() {
  return document.querySelector("[data-live]");
}

function show() {
  const element = pill();
  if (!element || element.dataset.live === "paused") return;
  const silentMs = Date.now() - answeredAt;
  const isStale = silentMs > STALE_AFTER_MS;
  const state = isStale ? "stale" : "live";
  const words = isStale ? `Stale: no answer for ${Math.floor(silentMs / 1000)} s` : "Live";
  if (element.dataset.live !== state) element.dataset.live = state;
  const label = element.querySelector("[data-live-words]");
  if (label.textContent !== words) label.textContent = words;
}

function isPoll(event) {
  return event.target.matches?.("[data-poll]");
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!isPoll(event)) return;
  if (document.hidden || document.querySelector("dialog[open]")) event.preventDefault();
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (!isPoll(event) || !event.detail.successful) return;
  answeredAt = Date.now();
  show();
});
document.addEventListener("visibilitychange", () => {
  answeredAt = Date.now();
});
window.setInterval(show, TICK_MS);
