// One agent: what it earns, how it explores, what it believes, what it is bound by.

import { get, of } from "../api.js";
import { el, fill, settled, write } from "../dom.js";
import {
  between,
  count,
  duration,
  moment,
  number,
  percent,
  rate,
  sentence,
  signed,
} from "../format.js";
import { watch } from "../live.js";
import {
  agentHead,
  bar,
  cell,
  nothing,
  problemOf,
  section,
  share,
  stat,
  stylesOf,
  table,
} from "../parts.js";
import { plot } from "../plots.js";
import { length, range, rangeButtons, since } from "../ranges.js";

/** Milliseconds between looks at what changes slowly. */
const AGAIN = 5_000;
const POINTS = 200;
const FIRST_DAY = "first day";

export async function show(view) {
  const { root, params, signal, onLeave, every } = view;
  const { agent } = params;
  const asked = get(of(agent), {}, signal);
  const isAll = range() === "all"; // else the history can be asked for at the same time
  const early = isAll ? null : historyOf(agent, length(), signal);
  early?.catch(() => null); // it is told of where it is awaited
  const about = await asked;
  const seconds = length(about.created);
  const words = el("p", { class: "words" });
  const figures = liveFigures();
  const curves = curvesOf(about.learner.kind, onLeave);
  const coefficients = coefficientsOf(agent, signal);
  const constraint = constraintOf(agent, signal);
  fill(
    root,
    agentHead(agent, agent, rangeButtons()),
    words,
    figures.element,
    section("Return per decision", curves.earned.element, curves.words),
    el(
      "div",
      { class: "pair" },
      section("Exploration", curves.explored.element),
      section("Decisions and feedback", curves.traffic.element),
    ),
    constraint.element,
    coefficients.element,
    curves.scales,
  );
  const look = async () => curves.update(await historyOf(agent, seconds, signal));
  onLeave(
    watch(seconds, (overview) => {
      const line = overview.agents.find(({ name }) => name === agent);
      if (line) {
        figures.update(line);
        write(words, `${line.learner} · ${line.constraint}`);
      }
    }),
  );
  curves.update(await (early ?? historyOf(agent, seconds, signal)));
  constraint.update();
  coefficients.update();
  curves.compare(agent, seconds, signal);
  every(AGAIN, look);
  every(2 * AGAIN, coefficients.refresh);
}

function historyOf(agent, seconds, signal) {
  return get(of(agent, "/history"), { since: since(seconds), points: POINTS }, signal);
}

/** The figures that come every second. */
function liveFigures() {
  const parts = {
    earned: stat("Return per decision"),
    decisions: stat("Decisions per minute"),
    feedback: stat("Feedback per minute"),
    answered: stat("With feedback"),
    delay: stat("Delay of feedback"),
    items: stat("Items"),
  };
  const element = el(
    "dl",
    { class: "stats" },
    Object.values(parts).map((one) => one.element),
  );
  const update = (line) => {
    write(parts.earned.shown, number(line.earned?.value));
    write(
      parts.earned.beside,
      line.earned ? between(line.earned.low, line.earned.high) : "no feedback yet",
    );
    write(parts.decisions.shown, rate(line.decisions_per_minute));
    write(parts.decisions.beside, `${count(line.decisions)} in all`);
    write(parts.feedback.shown, rate(line.feedback_per_minute));
    write(parts.feedback.beside, `${count(line.feedback)} weights`);
    write(parts.answered.shown, percent(line.answered));
    write(parts.delay.shown, duration(line.delay));
    write(parts.delay.beside, "median");
    write(parts.items.shown, count(line.items));
  };
  return { element, update };
}

// --- curves ---------------------------------------------------------------------------------------

function curvesOf(kind, onLeave) {
  const styles = stylesOf([kind, "RandomChoice", FIRST_DAY]);
  const earned = plot({ title: "Return per decision", height: 300 });
  const explored = plot({
    title: "Share of decisions that differ from the greedy one",
    format: percent,
    zero: true,
  });
  const traffic = plot({ title: "Decisions and feedback", format: count, zero: true });
  const scales = el("div", { class: "pair" });
  const words = el("div", {});
  const scalePlots = new Map();
  let history = null;
  let baselines = null;
  onLeave(() => [earned, explored, traffic, ...scalePlots.values()].forEach((one) => one.close()));

  const drawEarned = () =>
    earned.update([
      {
        name: kind,
        style: styles[kind],
        time: history.time,
        values: history.earned,
        low: history.low,
        high: history.high,
      },
      ...baselineCurves(baselines, styles),
    ]);

  function update(found) {
    history = trimmed(found);
    drawEarned();
    explored.update([
      {
        name: "differ from the greedy choice",
        style: styles[kind],
        time: history.time,
        values: history.explored,
      },
    ]);
    traffic.update([
      { name: "decisions", style: styles[kind], time: history.time, values: history.decisions },
      {
        name: "with feedback",
        style: styles[FIRST_DAY],
        time: history.time,
        values: history.answered,
      },
    ]);
    drawScales();
  }

  function drawScales() {
    for (const [name, values] of Object.entries(history.scales)) {
      if (!scalePlots.has(name)) {
        const made = plot({ title: `The scale ${name}`, height: 180 });
        scalePlots.set(name, made);
        scales.append(section(`Scale ${name}`, made.element));
      }
      scalePlots.get(name).update([{ name, style: styles[kind], time: history.time, values }]);
    }
  }

  /** Ask what others would have earned, which takes a while. */
  async function compare(agent, seconds, signal) {
    fill(words, el("p", { class: "summary" }, "Estimating what other choices would have earned …"));
    try {
      baselines = await get(of(agent, "/baselines"), { since: since(seconds) }, signal);
    } catch (error) {
      fill(words, signal.aborted ? [] : problemOf(error));
      return;
    }
    fill(words, baselineWords(baselines));
    drawEarned();
  }

  return { earned, explored, traffic, scales, words, update, compare };
}

/** A history from where something happens on. */
function trimmed(history) {
  const first = Math.max(
    0,
    history.decisions.findIndex((n) => n > 0),
  );
  const cut = (values) => values.slice(first);
  const found = { ...history, scales: {} };
  for (const [name, values] of Object.entries(history)) {
    if (Array.isArray(values)) {
      found[name] = cut(values);
    }
  }
  for (const [name, values] of Object.entries(history.scales)) {
    found.scales[name] = cut(values);
  }
  return found;
}

/** What others would have earned, as steps. */
function baselineCurves(found, styles) {
  if (!found) {
    return [];
  }
  const steps = (name, style, parts) => {
    const ends = [...found.time.slice(1).map((at) => at - 1), found.until];
    const pick = (field) => parts.flatMap((part) => Array(3).fill(part?.[field] ?? null));
    const middles = found.time.map((at, i) => (at + Math.max(at + 2, ends[i])) / 2);
    const time = found.time.flatMap((at, i) => [at, middles[i], Math.max(at + 2, ends[i])]);
    const marks = new Set(middles);
    return {
      name,
      style,
      time,
      values: pick("value"),
      low: pick("low"),
      high: pick("high"),
      marks,
    };
  };
  return [
    steps("random choice", styles.RandomChoice, found.random),
    steps("first day's policy", styles[FIRST_DAY], found.first_day),
  ];
}

function baselineWords(found) {
  const by = found.by === "model" ? "by what is believed now" : "by the logged propensities";
  const kept = found.first_day_until
    ? ` The first day's policy is that of ${moment(found.first_day_until)}.`
    : "";
  const text = `Other choices are estimated ${by}, from ${count(found.decisions)} decisions.${kept}`;
  return [
    el("p", { class: "summary" }, text),
    ...found.words.map((words) => el("p", { class: "summary" }, sentence(words))),
  ];
}

// --- what it believes -----------------------------------------------------------------------------

function coefficientsOf(agent, signal) {
  const search = el("input", {
    type: "search",
    placeholder: "Find a feature",
    "aria-label": "Find a feature",
  });
  const place = el("div", {});
  const note = el("p", { class: "summary" });
  const more = el("button", { type: "button" }, "Show more");
  let limit = 20;
  const element = section("Coefficients", search, place, note, more);

  async function update() {
    try {
      const found = await get(of(agent, "/coefficients"), { limit, search: search.value }, signal);
      more.hidden = found.coefficients.length < limit;
      fill(place, coefficientTable(found.coefficients));
      write(
        note,
        `${count(found.coefficients.length)} of ${count(found.total)} features, those that differ ` +
          "most from zero first; whiskers of two standard deviations.",
      );
    } catch (error) {
      fill(place, signal.aborted ? [] : problemOf(error));
      more.hidden = true;
    }
  }

  /** Look again, unless somebody is in the table. */
  async function refresh() {
    if (!element.contains(document.activeElement)) {
      await update();
    }
  }

  search.addEventListener("input", settled(250, update));
  more.addEventListener("click", () => {
    limit *= 3;
    update();
  });
  return { element, update, refresh };
}

function coefficientTable(listed) {
  if (listed.length === 0) {
    return nothing("There is no such feature, or this learner has none.");
  }
  const reach = Math.max(...listed.map(({ mean, std }) => Math.abs(mean) + 2 * std));
  const rows = listed.map(({ name, mean, std }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("bdi", { class: "id" }, name)),
      el("td", {}, bar(mean, reach, { error: 2 * std })),
      cell(signed(mean)),
      cell(`± ${number(2 * std, 2)}`),
    ),
  );
  const columns = [
    { words: "Feature" },
    { words: "Less or more" },
    { words: "Mean", isNumber: true },
    { words: "Two std", isNumber: true },
  ];
  return table("Coefficients", columns, rows);
}

// --- what it is bound by --------------------------------------------------------------------------

function constraintOf(agent, signal) {
  const place = el("div", {});
  const element = section("Constraint", place);
  async function update() {
    try {
      fill(place, constraintParts(await get(of(agent, "/constraint"), {}, signal)));
    } catch (error) {
      fill(place, signal.aborted ? [] : problemOf(error));
    }
  }
  return { element, update };
}

function constraintParts(found) {
  const rows = found.bounds.map(({ words, binds, used }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, words),
      cell(share(binds), percent(binds)),
      cell(used === null ? percent(used) : [share(used), percent(used)]),
    ),
  );
  const columns = [
    { words: "Limit" },
    {
      words: "Binds in",
      isNumber: true,
      title: "share of decisions in which nothing is left of it",
    },
    { words: "Used", isNumber: true, title: "mean share that is used" },
  ];
  const json = JSON.stringify({ kind: found.kind, ...found.parameters }, null, 2);
  return [
    el("p", {}, found.words),
    rows.length > 0 ? table("Limits", columns, rows) : null,
    rows.length > 0
      ? el("p", { class: "summary" }, `Of the last ${count(found.decisions)} decisions.`)
      : null,
    el(
      "details",
      {},
      el("summary", {}, "As JSON"),
      el("pre", { tabindex: "0" }, json.slice(0, 20_000)),
    ),
  ];
}
