// Pages by what comes after # in the address.

import { fill, el, say } from "./dom.js";
import { Problem, session } from "./api.js";
import { problemOf } from "./parts.js";

/**
 * What a page is given.
 * @typedef {object} View
 * @property {HTMLElement} root where it draws
 * @property {object} params the parts of the address, as `agent`
 * @property {AbortSignal} signal ends with the page
 * @property {(run: () => void) => void} onLeave something to do at its end
 * @property {(milliseconds: number, run: () => Promise<void>) => void} every again and again
 */

const routes = [];
let leaving = null;

/** A page for addresses such as `/agents/:agent/items`. */
export function route(pattern, title, show) {
  const names = [...pattern.matchAll(/:(\w+)/g)].map(([, name]) => name);
  const text = pattern.replace(/:\w+/g, "([^/]+)");
  routes.push({ test: new RegExp(`^${text}$`), names, title, show });
}

/** Where we are. */
export function here() {
  const [path, query] = location.hash.replace(/^#/, "").split("?", 2);
  return { path: path.startsWith("/") ? path : "/", query: new URLSearchParams(query) };
}

/** The address of a page. */
export function link(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return `#${path}${text ? `?${text}` : ""}`;
}

/** Go to a page. */
export function go(path, query = {}) {
  location.hash = link(path, query);
}

/** Keep something in the address, and stay on the page. */
export function note(query) {
  history.replaceState(null, "", link(here().path, query));
}

/** Show the page of the address, whenever that changes. */
export function start(main, login) {
  const turn = (isFirst) => {
    leaving?.abort();
    leaving = new AbortController();
    const { title, show, params } = session.key ? found() : login;
    const root = el("div", { class: "page" });
    fill(main, root);
    document.title = `${title(params ?? {})} · superarm`;
    dispatchEvent(new Event("turned"));
    shown(show, { ...view(root, leaving.signal), params: params ?? {} }, isFirst);
  };
  addEventListener("hashchange", () => turn(false));
  addEventListener("signed-in", () => turn(false));
  addEventListener("signed-out", () => turn(false));
  turn(true);
}

async function shown(show, given, isFirst) {
  try {
    await show(given);
    arrive(given.root, isFirst);
  } catch (error) {
    if (!given.signal.aborted) {
      given.root.append(problemOf(error));
      say(error.message);
    }
    if (!(error instanceof Problem) && error.name !== "AbortError") {
      throw error;
    }
  }
}

/** Let those who do not see the page know that it is another one. */
function arrive(root, isFirst) {
  const title = root.querySelector("h1");
  if (!isFirst && title && !root.contains(document.activeElement)) {
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function found() {
  const { path } = here();
  for (const one of routes) {
    const match = one.test.exec(path);
    if (match) {
      const pairs = one.names.map((name, i) => [name, decodeURIComponent(match[i + 1])]);
      return { ...one, params: Object.fromEntries(pairs) };
    }
  }
  return { title: () => "Not found", show: lost, params: {} };
}

function lost({ root }) {
  fill(root, el("h1", {}, "There is no such page"), el("a", { href: "#/" }, "To the overview"));
}

function view(root, signal) {
  const onLeave = (run) => signal.addEventListener("abort", run, { once: true });
  return { root, signal, onLeave, every: (wait, run) => repeated(signal, wait, run) };
}

/** Do something again and again, while the page is looked at. */
function repeated(signal, wait, run) {
  const next = () => setTimeout(turn, wait);
  let timer = next();
  async function turn() {
    if (signal.aborted) {
      return;
    }
    try {
      if (!document.hidden) {
        await run();
      }
    } catch (error) {
      if (!signal.aborted && !(error instanceof Problem)) {
        throw error; // a service that is away for a moment is asked again
      }
    }
    if (!signal.aborted) {
      timer = next();
    }
  }
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
}
