// The overview as it changes, sent by the service every second.

import { leave, loadSession } from "./api.js";

const listeners = new Set();
const states = new Set();
let source = null;
let asked = null;
let timer = 0;
let state = "paused";

/** Be told whether the connection is live, waiting or paused. */
export function onState(run) {
  states.add(run);
  run(state);
}

/**
 * Be told of every overview, of a range of time that ends now.
 * @param {() => number} since when the range begins, in seconds since 1970
 * @param {(overview: object) => void} run
 * @returns {() => void} what ends it
 */
export function watch(since, run) {
  listeners.add(run);
  connect(since);
  return () => {
    listeners.delete(run);
    if (listeners.size === 0) {
      close();
    }
  };
}

function connect(since) {
  close();
  asked = since;
  source = new EventSource(`v1/live?since=${since()}`);
  tell("waiting");
  source.addEventListener("overview", (event) => {
    tell("live");
    const overview = JSON.parse(event.data);
    listeners.forEach((run) => run(overview));
  });
  source.addEventListener("error", interrupted);
  // the range moves on with the time
  timer = setTimeout(() => connect(since), 60_000);
}

/** A browser connects again by itself, unless it was refused. */
async function interrupted() {
  tell("waiting");
  if (source?.readyState !== EventSource.CLOSED) {
    return;
  }
  close();
  tell("waiting");
  try {
    if ((await loadSession()) === null) {
      leave();
      return;
    }
  } catch {
    // the service is away: try again
  }
  if (listeners.size > 0 && asked) {
    timer = setTimeout(() => connect(asked), 2000);
  }
}

function close() {
  clearTimeout(timer);
  source?.close();
  source = null;
  tell("paused");
}

function tell(next) {
  if (state !== next) {
    state = next;
    states.forEach((run) => run(state));
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
  } else if (listeners.size > 0 && asked) {
    connect(asked);
  }
});
