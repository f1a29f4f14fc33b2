// All agents, and how the service does.

import { get } from "../api.js";
import { el, fill, write } from "../dom.js";
import { bytes, count, duration, many, moment, number, percent, rate } from "../format.js";
import { LONGEST, watch } from "../live.js";
import { nothing, spark, stat, styleOf } from "../parts.js";
import { length, rangeButtons, since } from "../ranges.js";
import { link } from "../router.js";

/** From how many agents on they can be searched. */
const MANY = 9;
/** Milliseconds between looks at ranges that are too long to be sent every second. */
const AGAIN = 10_000;

export async function show({ root, signal, onLeave, every }) {
  const service = serviceStats();
  const list = el("ul", { class: "agents" });
  const search = el("input", {
    type: "search",
    placeholder: "Find an agent",
    "aria-label": "Find an agent",
    hidden: true,
  });
  fill(
    root,
    el("header", { class: "head row" }, el("h1", {}, "Overview"), rangeButtons()),
    service.element,
    search,
    list,
  );
  const { agents } = await get("v1/agents", {}, signal);
  const seconds = length(...agents.map(({ created }) => created));
  const look = () => get("v1/overview", { since: since(seconds) }, signal);
  const kinds = new Map(agents.map(({ name, learner }) => [name, learner.kind]));
  const cards = new Map();
  const update = (found) => {
    service.update(found);
    draw(list, cards, kinds, found.agents);
    search.hidden = found.agents.length < MANY;
    filter(list, search.value);
  };
  search.addEventListener("input", () => filter(list, search.value));
  update(await look());
  if (seconds <= LONGEST) {
    onLeave(watch(seconds, update));
  } else {
    every(AGAIN, async () => update(await look()));
  }
}

function filter(list, text) {
  const wanted = text.trim().toLowerCase();
  for (const item of list.children) {
    item.hidden = wanted !== "" && !(item.dataset.name ?? "").toLowerCase().includes(wanted);
  }
}

/** The figures of the service itself. */
function serviceStats() {
  const lag = stat("Learner lag");
  const events = stat("Events");
  const storage = stat("Storage");
  const time = stat("As of");
  const element = el(
    "dl",
    { class: "stats" },
    [lag, events, storage, time].map((one) => one.element),
  );
  const update = (found) => {
    write(lag.shown, found.behind === 0 ? "none" : duration(found.behind_seconds));
    write(
      lag.beside,
      found.behind === 0 ? "all is learned" : `${many(found.behind, "event")} to learn`,
    );
    write(events.shown, count(found.events));
    write(
      events.beside,
      found.uncounted === 0 ? "all counted" : `${count(found.uncounted)} to count`,
    );
    write(storage.shown, bytes(found.storage));
    write(time.shown, moment(found.time, true));
  };
  return { element, update };
}

/** A card per agent: those that are there change, those that are gone go. */
function draw(list, cards, kinds, lines) {
  const names = new Set(lines.map(({ name }) => name));
  for (const [name, card] of cards) {
    if (!names.has(name)) {
      card.element.remove();
      cards.delete(name);
    }
  }
  if (lines.length === 0) {
    fill(list, el("li", {}, nothing("There is no agent yet. POST /v1/agents creates one.")));
    return;
  }
  if (cards.size === 0) {
    fill(list);
  }
  for (const line of lines) {
    if (!cards.has(line.name)) {
      cards.set(line.name, newCard(line, kinds.get(line.name) ?? ""));
      list.append(cards.get(line.name).element);
    }
    cards.get(line.name).update(line);
  }
}

function newCard({ name }, kind) {
  const words = el("p", { class: "words" });
  const earned = el("strong", {});
  const band = el("span", { class: "band" });
  const curve = el("div", { class: "curve" });
  const figures = {
    decisions: stat("Decisions per minute"),
    feedback: stat("Feedback per minute"),
    answered: stat("With feedback"),
    delay: stat("Delay of feedback"),
  };
  const element = el(
    "li",
    { class: "card agent", "data-name": name },
    el("h2", {}, el("a", { href: link(`/agents/${encodeURIComponent(name)}`) }, name)),
    words,
    el("p", { class: "earned" }, earned, " ", band),
    curve,
    el(
      "dl",
      { class: "stats small" },
      Object.values(figures).map((one) => one.element),
    ),
  );
  const update = (line) => updateCard(line, kind, { words, earned, band, curve, ...figures });
  return { element, update };
}

function updateCard(line, kind, parts) {
  write(parts.words, `${line.learner} · ${line.constraint}`);
  write(parts.earned, line.earned ? number(line.earned.value) : "–");
  write(parts.band, bandWords(line.earned));
  const known = line.curve.filter((value) => value !== null);
  const drawn = JSON.stringify(line.curve);
  if (parts.curve.dataset.drawn !== drawn) {
    parts.curve.dataset.drawn = drawn;
    fill(parts.curve, spark(line.curve, styleOf(kind), curveWords(known)));
  }
  write(parts.decisions.shown, rate(line.decisions_per_minute));
  write(parts.decisions.beside, `${count(line.decisions)} in all`);
  write(parts.feedback.shown, rate(line.feedback_per_minute));
  write(parts.feedback.beside, `${count(line.feedback)} weights`);
  write(parts.answered.shown, percent(line.answered));
  write(parts.delay.shown, duration(line.delay));
  write(parts.delay.beside, line.delay === null ? "" : "median");
}

function bandWords(earned) {
  if (!earned) {
    return "no feedback in this range";
  }
  if (earned.low === null) {
    return `return per decision, of ${count(earned.n)}`;
  }
  const half = (earned.high - earned.low) / 2;
  return `± ${number(half, 2)} return per decision`;
}

function curveWords(known) {
  if (known.length === 0) {
    return "no return in this range";
  }
  return `Return per decision, from ${number(known[0])} to ${number(known[known.length - 1])}`;
}
