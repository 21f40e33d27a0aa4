// A live page: its document over HTTP, then the newest buckets over a socket, until it is paused.
// Times of data are the server's. The only clock of ours is the one that counts silence.
import { Chart, setText } from "./live-chart.js";
import { follows, waitBeforeReadMs } from "./live-rules.js";
import { showCoverage, showNeeds, showPools, showTiles } from "./live-parts.js";
import { Zone } from "./live-time.js";

const STALE_AFTER_MS = 5000;
const TICK_MS = 1000;
const FIRST_WAIT_MS = 500;
const LAST_WAIT_MS = 8000;
const REREAD_MS = 5000;
const ICONS = { loading: "clock", live: "ok", paused: "pause", stale: "warn", reconnecting: "clock", historical: "clock", failed: "crit" };
const WORDS = { loading: "Loading…", live: "Live", reconnecting: "Reconnecting…", historical: "Historical", failed: "Not available" };

class LivePage {
  constructor(root) {
    this.root = root;
    this.isHistorical = root.hasAttribute("data-historical");
    this.charts = new Map();
    for (const element of root.querySelectorAll("[data-panel]")) {
      this.charts.set(element.dataset.panel, new Chart(element, this));
    }
    this.at = [];
    this.covered = [];
    this.lines = {};
    this.zoomed = null;
    this.isHeld = false;
    this.gapNeeds = [];
    this.crossAt = null;
    this.socket = null;
    this.last = null;
    this.pausedBy = null;
    this.buffered = 0;
    this.waitMs = FIRST_WAIT_MS;
    this.heardAt = performance.now();
    this.readAt = 0;
    this.state = "loading";
    this.reading = null;
    this.rereading = null;
    this.listen();
  }

  listen() {
    const on = (selector, kind, action) => this.root.querySelector(selector)?.addEventListener(kind, action);
    on("[data-live-pause]", "click", () => this.pause("hand"));
    on("[data-live-jump]", "click", () => this.jump());
    on("[data-live-retry]", "click", () => this.start());
    on("[data-live-window]", "change", (event) => this.go({ window: event.target.value }));
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest?.("input, select, textarea, [contenteditable], dialog");
      if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
      if (this.pausedBy) this.jump();
      else this.pause("hand");
    });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.pause("hidden");
      else if (this.pausedBy === "hidden") this.jump();
    });
    new MutationObserver(() => this.draw()).observe(document.documentElement, {
      attributes: true, attributeFilter: ["data-bs-theme"],
    });
    window.setInterval(() => this.show(), TICK_MS);
    window.addEventListener("pagehide", () => this.socket?.close());
    window.addEventListener("pageshow", (event) => event.persisted && this.start());
  }

  // --- the address is the state
  go(changes) {
    const url = new URL(window.location.href);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    window.location.assign(url);
  }

  offerLink() {
    const url = new URL(window.location.href);
    const asked = new URLSearchParams(this.root.dataset.query);
    url.searchParams.set("organisation", asked.get("organisation"));
    url.searchParams.set("window", asked.get("window"));
    const end = new Date((this.at.at(-1) + this.bucketS) * 1000);
    url.searchParams.set("until", end.toISOString().replace(".000", ""));
    this.root.querySelector("[data-live-link]").dataset.copy = url.href;
  }

  // --- document
  async start() {
    if (this.reading) return this.reading;
    this.reading = this.read().finally(() => {
      this.reading = null;
    });
    return this.reading;
  }

  async read() {
    this.readAt = performance.now();
    let answer;
    try {
      answer = await fetch(`${this.root.dataset.document}?${this.root.dataset.query}`, {
        headers: { Accept: "application/json" }, cache: "no-store",
      });
    } catch {
      return this.retry("The console does not answer.");
    }
    if (answer.status === 401) return window.location.reload();
    if (!answer.ok) return this.refuse(answer);
    try {
      this.load(await answer.json());
    } catch (error) {
      return this.retry(`The figures could not be read: ${error.message}`);
    }
    this.heardAt = performance.now();
    this.last = null;
    this.problem("");
    if (this.isHistorical) return this.enter("historical");
    if (this.socket === null) this.open();
    else if (this.state !== "paused") this.enter("live");
    return undefined;
  }

  async refuse(answer) {
    const told = await answer.json().catch(() => ({}));
    const words = told.detail ?? `The console answered ${answer.status}.`;
    const id = answer.headers.get("X-Request-Id");
    const text = id ? `${words} Request ${id}.` : words;
    if (answer.status >= 500 || answer.status === 429) return this.retry(text);
    this.problem(text);
    this.socket?.close();
    return this.enter("failed");
  }

  retry(words) {
    this.problem(words);
    this.enter("reconnecting");
    this.later();
  }

  later() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.start(), this.waitMs * (0.75 + Math.random() / 2));
    this.waitMs = Math.min(this.waitMs * 2, LAST_WAIT_MS);
  }

  load(page) {
    this.zone = new Zone(page.zone);
    this.bucketS = page.bucket_s;
    this.at = page.at;
    this.covered = page.covered;
    this.lines = page.lines;
    this.gapNeeds = page.gap_needs;
    for (const [name, chart] of this.charts) chart.load(page.panels[name]);
    this.take(page);
    this.draw();
  }

  // What document and message have alike.
  take(page) {
    this.isPartial = page.partial;
    this.coverage = page.coverage;
    const poolUrl = (id) => this.root.querySelector("[data-pool-url]")?.dataset.poolUrl.replace("POOL", encodeURIComponent(id)) ?? "";
    const alertUrl = (id) => this.root.querySelector("[data-alert-url]")?.dataset.alertUrl.replace("ALERT", encodeURIComponent(id)) ?? "";
    const budgetUrl = (id) => this.root.querySelector("[data-budget-url]")?.dataset.budgetUrl.replace("BUDGET", encodeURIComponent(id)) ?? "";
    showTiles(this.root, page.tiles, this.lines);
    showCoverage(this.root, page.coverage);
    if (this.root.querySelector("[data-needs]")) showNeeds(this.root, [...page.needs, ...this.gapNeeds], { poolUrl, alertUrl, budgetUrl });
    if (this.root.querySelector("[data-pools]")) showPools(this.root, page.pools, poolUrl);
    const until = page.as_of === null ? "" : `Data to ${this.zone.clock(page.as_of * 1000)}`;
    setText(this.root.querySelector("[data-live-data]"), until);
    this.offerLink();
  }

  // --- socket
  open() {
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${window.location.host}${this.root.dataset.socket}?${this.root.dataset.query}`);
    this.socket = socket;
    socket.addEventListener("open", () => this.socket === socket && this.enter("live"));
    socket.addEventListener("message", (event) => {
      if (this.socket === socket) this.hear(JSON.parse(event.data));
    });
    socket.addEventListener("close", () => {
      if (this.socket !== socket) return;
      this.socket = null;
      if (this.state === "failed") return;
      if (this.pausedBy) return;
      this.enter("reconnecting");
      this.later();
    });
  }

  hear(message) {
    this.heardAt = performance.now();
    this.waitMs = FIRST_WAIT_MS;
    const before = this.last;
    this.last = message;
    if (this.pausedBy) {
      this.buffered += 1;
      this.show();
      return;
    }
    if (this.reading) return;
    const goesOn = follows(message, before, this.at.at(-1), this.bucketS);
    if (!goesOn || !this.merge(message)) this.reread();
    this.enter("live");
  }

  // A number is missing, or something new came up: the document has it all.
  reread() {
    if (this.rereading) return;
    this.rereading = window.setTimeout(() => {
      this.rereading = null;
      if (this.pausedBy) return;
      this.root.dataset.rereads = String(Number(this.root.dataset.rereads ?? 0) + 1);
      this.start();
    }, waitBeforeReadMs(Math.random()));
  }

  merge(message) {
    const newest = this.at.at(-1);
    const added = message.at.filter((second) => second > newest);
    this.at = [...this.at.slice(added.length), ...added];
    this.covered = [...this.covered.slice(added.length), ...added.map(() => 0)];
    const places = message.at.map((second) => this.at.indexOf(second));
    places.forEach((place, i) => {
      this.covered[place] = message.covered[i];
    });
    for (const [name, values] of Object.entries(message.lines)) {
      const line = this.lines[name] ?? [];
      if (!line.length && !values.length) continue;
      line.push(...added.map(() => null));
      line.splice(0, added.length);
      places.forEach((place, i) => {
        line[place] = values[i] ?? null;
      });
    }
    const change = { added: added.length, dropped: added.length, places };
    let isKnown = true;
    for (const [name, chart] of this.charts) {
      isKnown = chart.merge(message.panels[name], change) && isKnown;
    }
    this.take(message);
    this.draw();
    return isKnown || performance.now() - this.readAt < REREAD_MS;
  }

  // --- state
  enter(state) {
    if (this.pausedBy && (state === "live" || state === "reconnecting")) return;
    this.state = state;
    this.show();
  }

  show() {
    const silentMs = performance.now() - this.heardAt;
    let shown = this.state;
    if (shown === "live" && silentMs > STALE_AFTER_MS) shown = "stale";
    let words = WORDS[shown];
    if (shown === "paused") words = `Paused (${this.buffered} buffered)`;
    if (shown === "stale") words = `Stale – no data for ${Math.floor(silentMs / 1000)} s`;
    const pill = this.root.querySelector("[data-live]");
    setText(pill.querySelector("[data-live-words]"), words);
    if (pill.dataset.live !== shown) {
      pill.dataset.live = shown;
      pill.querySelector("[data-live-icon]").setAttribute("href", `#i-${ICONS[shown]}`);
      const said = shown === "paused" ? "Paused" : shown === "stale" ? "Stale, no data" : words;
      setText(this.root.querySelector("[data-live-said]"), said);
      this.root.classList.toggle("is-dimmed", shown === "stale" || shown === "reconnecting");
    }
    const isStill = shown === "paused" || shown === "historical";
    this.root.querySelector("[data-live-jump]").hidden = !isStill;
    this.root.querySelector("[data-live-pause]").hidden = !["live", "stale"].includes(shown);
  }

  problem(words) {
    this.root.querySelector("[data-live-problem]").hidden = !words;
    setText(this.root.querySelector("[data-live-problem-words]"), words);
  }

  pause(reason) {
    if (this.isHistorical || this.state === "failed" || this.pausedBy) return;
    this.pausedBy = reason;
    this.buffered = 0;
    this.state = "paused";
    this.show();
  }

  jump() {
    if (this.isHistorical) return this.go({ until: null });
    this.pausedBy = null;
    this.zoomed = null;
    this.state = this.socket ? "live" : "reconnecting";
    this.show();
    return this.start();
  }

  // --- charts
  range() {
    if (this.zoomed) return this.zoomed;
    const half = this.bucketS * 500;
    return [this.at[0] * 1000 - half, this.at.at(-1) * 1000 + half];
  }

  zoom(from, to) {
    this.zoomed = [from, to];
    this.pause("zoom");
    this.draw();
  }

  zoomOut() {
    if (!this.zoomed) return;
    this.zoomed = null;
    this.draw();
  }

  setCross(place) {
    if (this.crossAt === place) return;
    this.crossAt = place;
    for (const chart of this.charts.values()) chart.showCross(place);
  }

  // A chart redrawn under the pointer would lose the drag; until it is let go nothing is drawn.
  hold() {
    this.isHeld = true;
    window.addEventListener("pointerup", () => {
      this.isHeld = false;
      window.setTimeout(() => this.draw());
    }, { once: true });
  }

  draw() {
    if (this.isHeld) return;
    for (const chart of this.charts.values()) chart.draw();
    if (this.crossAt !== null) for (const chart of this.charts.values()) chart.showCross(this.crossAt);
  }
}

for (const root of document.querySelectorAll("[data-live-page]")) new LivePage(root).start();
