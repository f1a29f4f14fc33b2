// Curves over time with bands, each with a summary in words and as a table.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { el, fill, svg, write } from "./dom.js";
import { CLOCK, DAY, EXACT, between, moment, number, plain } from "./format.js";
import { nothing, table } from "./parts.js";
import { colorOf } from "./theme.js";

/** Up to how many points each gets a marker. */
const FEW = 40;
/** How many rows a table beside a plot shows. */
const ROWS = 200;

/**
 * A curve.
 * @typedef {object} Curve
 * @property {string} name
 * @property {{color: string, dash: number[], marker: string}} style
 * @property {number[]} time seconds since 1970
 * @property {(number|null)[]} values
 * @property {(number|null)[]} [low]
 * @property {(number|null)[]} [high]
 * @property {Set<number>} [marks] times that get a marker; by default all
 */

/**
 * A plot of curves.
 * @param {{title: string, format?: (x: number) => string, height?: number, zero?: boolean}} given
 */
export function plot({ title, format = number, height = 240, zero = false }) {
  const legend = el("ul", { class: "legend" });
  const frame = el("div", { class: "plot", role: "img", "aria-label": title });
  const summary = el("figcaption", { class: "summary" });
  const beside = el("div", {});
  const details = el("details", {}, el("summary", {}, "As a table"), beside);
  const element = el("figure", {}, legend, frame, summary, details);
  let drawn = null;
  let shown = [];
  let words = "";

  const size = () => ({ width: Math.max(200, frame.clientWidth), height });
  const watcher = new ResizeObserver(() => drawn?.setSize(size()));
  watcher.observe(frame);
  const recolor = () => drawn?.redraw(false, true);
  addEventListener("theme", recolor);
  details.addEventListener(
    "toggle",
    () => details.open && fill(beside, tableOf(title, shown, format)),
  );

  /** Draw other curves. @param {Curve[]} curves */
  function update(curves) {
    shown = curves.filter(({ values }) => values.some((value) => value !== null));
    fill(legend, shown.length > 1 ? shown.map(legendOf) : []);
    words = summaryOf(shown, format);
    write(summary, words);
    frame.setAttribute("aria-label", `${title}. ${words}`);
    details.hidden = shown.length === 0;
    if (details.open) {
      fill(beside, tableOf(title, shown, format));
    }
    draw();
  }

  function draw() {
    drawn?.destroy();
    drawn = null;
    if (shown.length === 0) {
      fill(frame, nothing("Nothing to draw yet in this range of time."));
      return;
    }
    fill(frame);
    const tell = (at) => write(summary, at === null ? words : readoutOf(shown, at, format));
    drawn = new uPlot({ ...options(shown, format, zero, tell), ...size() }, dataOf(shown), frame);
  }

  function close() {
    watcher.disconnect();
    removeEventListener("theme", recolor);
    drawn?.destroy();
  }

  return { element, update, close };
}

// --- for uPlot ------------------------------------------------------------------------------------

/** All curves on one axis: of each, what is above and below its band, and itself. */
function dataOf(curves) {
  const tables = curves.map(({ time, values, low, high }) => [
    time,
    high ?? values.map(() => null),
    low ?? values.map(() => null),
    values,
  ]);
  return tables.length === 1 ? tables[0] : uPlot.join(tables);
}

function options(curves, format, zero, tell) {
  const onAxis = format === number ? plain : format;
  const series = [{}];
  const bands = [];
  for (const curve of curves) {
    const first = series.length;
    series.push({ show: true, width: 0, points: { show: false }, spanGaps: true });
    series.push({ show: true, width: 0, points: { show: false }, spanGaps: true });
    series.push(lineOf(curve));
    bands.push({ series: [first, first + 1], fill: `${curve.style.color}2e` });
  }
  return {
    series,
    bands,
    legend: { show: false },
    padding: [10, 30, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: { y: { range: (_, low, high) => rangeOf(low, high, zero) } },
    axes: [
      { ...axis(), values: timesOf, space: 70 },
      { ...axis(), size: 62, values: (_, ticks) => ticks.map((x) => onAxis(x)) },
    ],
    hooks: {
      setCursor: [(u) => tell(u.cursor.idx === null ? null : (u.data[0][u.cursor.idx] ?? null))],
    },
  };
}

function lineOf({ style, time, marks = null }) {
  return {
    stroke: style.color,
    width: 1.8,
    dash: style.dash,
    spanGaps: true,
    points: {
      show: time.length <= FEW,
      size: 7,
      fill: style.color,
      paths: (u, at, first, last) => markersOf(u, at, first, last, style.marker, marks),
    },
  };
}

function axis() {
  return {
    stroke: () => colorOf("axis"),
    grid: { stroke: () => colorOf("grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
}

/** Times on the axis: with their day where that begins or the marks are days. */
function timesOf(_, ticks, __, ___, step) {
  let day = "";
  return ticks.map((at) => {
    const date = new Date(1000 * at);
    const isNew = date.toDateString() !== day;
    day = date.toDateString();
    if (step >= 86400) {
      return DAY.format(date);
    }
    const clock = (step < 60 ? EXACT : CLOCK).format(date);
    return isNew ? `${clock}\n${DAY.format(date)}` : clock;
  });
}

/** From the least to the largest with some room, and from zero where that is meant. */
function rangeOf(low, high, zero) {
  if (low === null || high === null) {
    return [0, 1];
  }
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [zero ? Math.min(0, low) : low - room, high + room];
}

/** Markers, in the shapes that the library draws, at some times or at all. */
function markersOf(u, at, first, last, marker, marks) {
  const path = new Path2D();
  const r = 3.2 * devicePixelRatio;
  for (let i = first; i <= last; i += 1) {
    const value = u.data[at][i];
    const isMarked = marks === null || marks.has(u.data[0][i]);
    if (value !== null && value !== undefined && isMarked) {
      const x = u.valToPos(u.data[0][i], "x", true);
      const y = u.valToPos(value, "y", true);
      path.addPath(shapeOf(marker, x, y, r));
    }
  }
  return { stroke: path, fill: path };
}

const CORNERS = {
  s: [
    [-1, -1],
    [1, -1],
    [1, 1],
    [-1, 1],
  ],
  D: [
    [0, -1.3],
    [1.3, 0],
    [0, 1.3],
    [-1.3, 0],
  ],
  "^": [
    [0, -1.2],
    [1.15, 1],
    [-1.15, 1],
  ],
  v: [
    [0, 1.2],
    [1.15, -1],
    [-1.15, -1],
  ],
  X: [
    [-1, -0.5],
    [-0.5, -1],
    [0, -0.45],
    [0.5, -1],
    [1, -0.5],
    [0.45, 0],
    [1, 0.5],
    [0.5, 1],
    [0, 0.45],
    [-0.5, 1],
    [-1, 0.5],
    [-0.45, 0],
  ],
};

function shapeOf(marker, x, y, r) {
  const path = new Path2D();
  if (!(marker in CORNERS)) {
    path.arc(x, y, r, 0, 2 * Math.PI);
    return path;
  }
  CORNERS[marker].forEach(([dx, dy], i) => {
    path[i === 0 ? "moveTo" : "lineTo"](x + r * dx, y + r * dy);
  });
  path.closePath();
  return path;
}

// --- in words -------------------------------------------------------------------------------------

function legendOf({ name, style }) {
  const middle =
    style.marker in CORNERS
      ? svg("polygon", {
          points: CORNERS[style.marker].map(([x, y]) => `${17 + 4 * x},${6 + 4 * y}`).join(" "),
          fill: style.color,
        })
      : svg("circle", { cx: 17, cy: 6, r: 4, fill: style.color });
  const line = svg("line", {
    x1: 0,
    x2: 34,
    y1: 6,
    y2: 6,
    stroke: style.color,
    "stroke-width": 2,
    "stroke-dasharray": style.dash.join(" ") || null,
  });
  return el(
    "li",
    {},
    svg("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" }, line, middle),
    name,
  );
}

function summaryOf(curves, format) {
  return curves
    .map(({ name, values, low, high }) => {
      const at = values.findLastIndex((value) => value !== null);
      const band = low && low[at] !== null ? ` (${between(low[at], high[at])})` : "";
      return `${name}: ${format(values[at])}${band} at last`;
    })
    .join("; ");
}

/** What the curves are at the cursor. */
function readoutOf(curves, at, format) {
  const parts = curves.map(({ name, time, values, low, high }) => {
    const i = time.findLastIndex((one) => one <= at);
    if (i < 0 || values[i] === null) {
      return null;
    }
    const band = low && low[i] !== null ? ` (${between(low[i], high[i])})` : "";
    return `${name} ${format(values[i])}${band}`;
  });
  return [moment(at), ...parts.filter(Boolean)].join(" · ");
}

function tableOf(title, curves, format) {
  return el(
    "div",
    {},
    curves.map(({ name, time, values, low, high }) => {
      const rows = time
        .map((at, i) => ({ at, i }))
        .filter(({ i }) => values[i] !== null)
        .slice(-ROWS)
        .map(({ at, i }) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, moment(at)),
            el("td", { class: "number" }, format(values[i])),
            low ? el("td", { class: "number" }, between(low[i], high[i])) : null,
          ),
        );
      const columns = [{ words: "From" }, { words: name, isNumber: true }];
      if (low) {
        columns.push({ words: "95 % interval", isNumber: true });
      }
      return table(`${title}: ${name}`, columns, rows);
    }),
  );
}
