// Intervals beside each other, a line each.

import { el, svg } from "./dom.js";
import { number } from "./format.js";

const WIDTH = 760;
const LEFT = 220;
const RIGHT = 40;
const ROW = 26;

/**
 * @param {string} title
 * @param {{words: string, interval: object|null, style: object, isFaint?: boolean}[]} lines
 */
export function forest(title, lines) {
  const known = lines.map((line) => line.interval).filter(Boolean);
  const low = Math.min(...known.map((one) => one.low ?? one.value));
  const high = Math.max(...known.map((one) => one.high ?? one.value));
  const span = high - low || 1;
  const x = (value) => LEFT + ((value - low) / span) * (WIDTH - LEFT - RIGHT);
  const height = ROW * (lines.length + 1);
  const frame = svg("svg", {
    class: "forest",
    viewBox: `0 0 ${WIDTH} ${height}`,
    role: "img",
    "aria-label": title,
  });
  for (const at of [low, (low + high) / 2, high]) {
    frame.append(svg("line", { class: "faint", x1: x(at), x2: x(at), y1: 0, y2: height - ROW }));
    frame.append(svg("text", { x: x(at), y: height - 8, "text-anchor": "middle" }, number(at)));
  }
  lines.forEach((line, i) => frame.append(...lineOf(line, ROW * (i + 0.5), x)));
  const place = el(
    "div",
    { class: "scroll", role: "region", "aria-label": title, tabindex: "0" },
    frame,
  );
  return el(
    "figure",
    {},
    place,
    el(
      "figcaption",
      { class: "summary" },
      `${title}, with 95 % intervals; pale where there is little support.`,
    ),
  );
}

function lineOf({ words, interval, style, isFaint }, y, x) {
  const text = svg("text", { x: 0, y: y + 4 }, words.slice(0, 34));
  if (!interval) {
    return [text, svg("text", { x: LEFT, y: y + 4 }, "nothing can be said")];
  }
  const opacity = isFaint ? 0.45 : 1;
  return [
    text,
    svg("line", {
      x1: x(interval.low ?? interval.value),
      x2: x(interval.high ?? interval.value),
      y1: y,
      y2: y,
      stroke: style.color,
      "stroke-width": 2.5,
      "stroke-dasharray": style.dash.join(" ") || null,
      opacity,
    }),
    svg("circle", { cx: x(interval.value), cy: y, r: 5, fill: style.color, opacity }),
  ];
}
