// Parts that several pages are made of.

import { session } from "./api.js";
import { el, svg } from "./dom.js";
import { NONE, number, sentence } from "./format.js";
import { LEARNERS, OTHERS } from "./learners.js";

/** What went wrong, in the words of the service. */
export function problemOf(error) {
  const words = [el("p", {}, sentence(error.message))];
  if (error.status === 403 && session.key) {
    words.push(el("p", {}, `You are logged in with a key for: ${session.key.scopes.join(", ")}.`));
  }
  for (const { pointer, detail } of error.fields ?? []) {
    if (detail !== error.message) {
      words.push(el("p", {}, el("code", {}, pointer), ` ${detail}`));
    } else {
      words.push(el("p", {}, "at ", el("code", {}, pointer)));
    }
  }
  return el("div", { class: "problem", role: "alert" }, words);
}

/** The head of a page of an agent: its name, and the pages it has. */
export function agentHead(agent, title, tools = null) {
  const at = `#/agents/${encodeURIComponent(agent)}`;
  const tabs = [
    ["", "Learning"],
    ["/items", "Items"],
    ["/decisions", "Decisions"],
    ["/whatif", "What if"],
    ["/try", "Try it"],
  ];
  const now = location.hash.split("?")[0];
  const links = tabs.map(([rest, words]) =>
    el("a", { href: at + rest, "aria-current": currentOf(now, at + rest, rest !== "") }, words),
  );
  return el(
    "header",
    { class: "head" },
    el("div", { class: "row" }, el("h1", {}, title), tools),
    el("nav", { class: "tabs", "aria-label": `Pages of ${agent}` }, links),
  );
}

/** Whether a link leads to this page, or to one that this page is under. */
function currentOf(now, href, mayBeUnder) {
  if (now === href) {
    return "page";
  }
  return mayBeUnder && now.startsWith(`${href}/`) ? "true" : null;
}

/** A figure with what it is of. */
export function stat(words, value = NONE, more = "") {
  const shown = el("dd", {}, value);
  const beside = el("dd", { class: "beside" }, more);
  const element = el("div", { class: "stat" }, el("dt", {}, words), shown, beside);
  return { element, shown, beside };
}

/** A section with a title. */
export function section(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

/** What is shown while there is nothing to show. */
export function nothing(words) {
  return el("p", { class: "nothing" }, words);
}

/** A table that scrolls by itself where it is wider than the page. */
export function table(label, columns, rows) {
  const heads = columns.map(({ words, isNumber, ...given }) =>
    el("th", { scope: "col", class: isNumber ? "number" : null, ...given }, words),
  );
  return el(
    "div",
    { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)),
  );
}

/** A cell with a number. */
export function cell(...children) {
  return el("td", { class: "number" }, ...children);
}

// --- how learners are drawn -----------------------------------------------------------------------

/** The style of a learner, as `superarm.palette.style_of`. */
export function styleOf(label) {
  return LEARNERS[label] ?? OTHERS[hash(label) % OTHERS.length];
}

/** Styles of learners beside each other, as `superarm.palette.styles_of`. */
export function stylesOf(labels) {
  const found = {};
  const known = labels.filter((label) => label in LEARNERS);
  known.forEach((label) => (found[label] = LEARNERS[label]));
  const taken = new Set(known.map((label) => LEARNERS[label].color));
  for (const label of labels.filter((one) => !(one in LEARNERS)).sort()) {
    const start = hash(label) % OTHERS.length;
    const turned = [...OTHERS.slice(start), ...OTHERS.slice(0, start)];
    found[label] = turned.find(({ color }) => !taken.has(color)) ?? turned[0];
    taken.add(found[label].color);
  }
  return found;
}

function hash(label) {
  let found = 2166136261;
  for (const byte of new TextEncoder().encode(label)) {
    found = Math.imul(found ^ byte, 16777619) >>> 0;
  }
  return found;
}

// --- small drawings -------------------------------------------------------------------------------

/** A curve without axes. */
export function spark(given, style, words) {
  const values = given.slice(
    Math.max(
      0,
      given.findIndex((value) => value !== null),
    ),
  );
  const width = 240;
  const height = 44;
  const known = values.filter((value) => value !== null);
  const frame = svg("svg", {
    class: "spark",
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": words,
  });
  if (known.length === 0) {
    return frame;
  }
  const low = Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const x = (i) => (values.length > 1 ? (width * i) / (values.length - 1) : width / 2);
  const y = (value) => height - 4 - ((height - 8) * (value - low)) / span;
  let path = "";
  let isOpen = false;
  values.forEach((value, i) => {
    if (value !== null) {
      path += `${isOpen ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    }
    isOpen = value !== null;
  });
  if (known.length === 1) {
    const at = values.findIndex((value) => value !== null);
    path += `h0.1M${x(at)} ${y(known[0])}`;
  }
  frame.append(
    svg("path", {
      d: path,
      stroke: style.color,
      "stroke-dasharray": style.dash.join(" ") || null,
      "vector-effect": "non-scaling-stroke",
    }),
  );
  return frame;
}

/** A bar from zero on a scale that several rows share, with its error. */
export function bar(value, reach, { error = 0, color = null } = {}) {
  const width = 200;
  const x = (at) => width / 2 + (Math.max(-reach, Math.min(reach, at)) / reach) * (width / 2 - 2);
  const frame = svg("svg", { class: "bar", viewBox: `0 0 ${width} 16`, "aria-hidden": "true" });
  frame.append(svg("line", { class: "zero", x1: width / 2, x2: width / 2, y1: 0, y2: 16 }));
  const start = Math.min(x(0), x(value));
  frame.append(
    svg("rect", {
      class: value < 0 ? "less" : "more",
      x: start,
      y: 4,
      width: Math.max(0.5, Math.abs(x(value) - x(0))),
      height: 8,
      fill: color,
    }),
  );
  if (error > 0) {
    frame.append(
      svg("line", { class: "error", x1: x(value - error), x2: x(value + error), y1: 8, y2: 8 }),
    );
  }
  return frame;
}

/** A share as a bar. */
export function share(value, words = "") {
  const frame = svg("svg", {
    class: "share",
    viewBox: "0 0 100 8",
    preserveAspectRatio: "none",
    "aria-hidden": words ? null : "true",
    role: words ? "img" : null,
    "aria-label": words || null,
  });
  frame.append(svg("rect", { class: "whole", width: 100, height: 8, rx: 2 }));
  frame.append(
    svg("rect", { class: "part", width: 100 * Math.min(1, value ?? 0), height: 8, rx: 2 }),
  );
  return frame;
}

/** A value with its interval, as text. */
export function interval(found, digits = 3) {
  if (!found) {
    return NONE;
  }
  if (found.low === null) {
    return number(found.value, digits);
  }
  return `${number(found.value, digits)} (${number(found.low, digits)} to ${number(found.high, digits)})`;
}
