// The overview as it changes, sent by the service every second.

import { leave, loadSession } from "./api.js";

const listeners = new Set();
const states = new Set();
let source = null;
let asked = 0;
let timer = 0;
let state = "paused";

/** Be told whether the connection is live, waiting or paused. */
export function onState(run) {
  states.add(run);
  run(state);
}

/** The longest range that is sent, in seconds. */
export const LONGEST = 31 * 86400;

/**
 * Be told of every overview.
 * @param {number} seconds the length of the range of time it is of
 * @param {(overview: object) => void} run
 * @returns {() => void} what ends it
 */
export function watch(seconds, run) {
  listeners.add(run);
  connect(Math.min(seconds, LONGEST));
  return () => {
    listeners.delete(run);
    if (listeners.size === 0) {
      close();
    }
  };
}

function connect(seconds) {
  close();
  asked = seconds;
  source = new EventSource(`v1/live?seconds=${seconds}`);
  tell("waiting");
  source.addEventListener("overview", (event) => {
    tell("live");
    const overview = JSON.parse(event.data);
    listeners.forEach((run) => run(overview));
  });
  source.addEventListener("unavailable", () => tell("waiting"));
  source.addEventListener("refused", refused);
  source.addEventListener("error", interrupted);
}

/** A browser connects again by itself, unless it was refused. */
async function interrupted() {
  tell("waiting");
  if (source?.readyState === EventSource.CLOSED) {
    await refused();
  }
}

/** Either nobody is logged in any more, or the service is away or busy: then it is asked again. */
async function refused() {
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
  if (listeners.size > 0) {
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
  } else if (listeners.size > 0) {
    connect(asked);
  }
});
