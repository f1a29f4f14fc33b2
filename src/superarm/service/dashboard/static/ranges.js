// Ranges of time to look at, kept in the address and remembered.

import { el } from "./dom.js";
import { go, here } from "./router.js";

export const RANGES = {
  "15m": { words: "15 min", seconds: 900 },
  "1h": { words: "1 h", seconds: 3600 },
  "6h": { words: "6 h", seconds: 21600 },
  "24h": { words: "24 h", seconds: 86400 },
  "7d": { words: "7 d", seconds: 604800 },
  "30d": { words: "30 d", seconds: 2592000 },
  all: { words: "all", seconds: null },
};

/** The range that is looked at. */
export function range() {
  const wanted = here().query.get("range") ?? localStorage.getItem("range");
  return wanted in RANGES ? wanted : "1h";
}

/** How long the range is in seconds, of agents that were created then. */
export function length(...created) {
  const { seconds } = RANGES[range()];
  if (seconds !== null) {
    return seconds;
  }
  const first = Math.min(Date.now() - 3_600_000, ...created.map((time) => Date.parse(time)));
  return Math.ceil((Date.now() - first) / 1000);
}

/** When a range of so many seconds begins that ends now, as the service takes it. */
export function since(seconds) {
  return Math.max(0, Math.floor(Date.now() / 1000) - seconds);
}

/** Buttons that choose a range. */
export function rangeButtons() {
  const chosen = range();
  const buttons = Object.entries(RANGES).map(([name, { words }]) =>
    el(
      "button",
      {
        type: "button",
        "aria-pressed": String(name === chosen),
        onclick: () => choose(name),
      },
      words,
    ),
  );
  return el("div", { class: "ranges", role: "group", "aria-label": "Range of time" }, buttons);
}

function choose(name) {
  localStorage.setItem("range", name);
  go(here().path, { ...Object.fromEntries(here().query), range: name });
}
