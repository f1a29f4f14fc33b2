// One decision: what was chosen from what, why, and what came back.

import { get, of } from "../api.js";
import { el, fill, idOf } from "../dom.js";
import { count, duration, moment, number, percent, plain, signed } from "../format.js";
import { agentHead, bar, cell, nothing, section, share, stat, table } from "../parts.js";

/** How many features of an item are shown at first. */
const TOP = 8;

export async function show({ root, params, signal }) {
  const { agent, id } = params;
  const found = await get(of(agent, `/decisions/${encodeURIComponent(id)}/opened`), {}, signal);
  fill(
    root,
    agentHead(agent, `Decision ${id}`),
    facts(found),
    found.context ? section("Context", contextOf(found.context)) : null,
    section("Chosen, and what came back", chosenOf(found)),
    section("Why", whyOf(found)),
    section("Runners-up", runnersOf(found.runners_up)),
  );
}

function facts(found) {
  const [explored, beside] = exploredOf(found.explored);
  return el(
    "dl",
    { class: "stats" },
    stat("When", moment(found.time, true)).element,
    stat("Chosen from", `${count(found.candidates)} items`, found.constraint).element,
    stat("Return", plain(found.earned), found.earned === null ? "no feedback yet" : "").element,
    stat("Explored", explored, beside).element,
  );
}

function exploredOf(explored) {
  if (explored === null) {
    return ["–", "was not looked at"];
  }
  return explored ? ["yes", "not the greedy choice"] : ["no", "the greedy choice"];
}

function contextOf(context) {
  const parts = Object.entries(context).map(([name, value]) =>
    el("li", {}, el("bdi", { class: "id" }, name), ` ${plain(value)}`),
  );
  return el("ul", { class: "chips" }, parts);
}

function chosenOf(found) {
  const reasons = new Map(found.reasons.map((one) => [one.item, one]));
  const rows = found.came_back.map((back) => {
    const reason = reasons.get(back.item);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, idOf(back.item, true)),
      cell(back.weight === null ? "nothing yet" : plain(back.weight)),
      el("td", {}, el("span", {}, back.time === null ? "" : moment(back.time, true)), notes(back)),
      cell(duration(back.delay)),
      cell(reason ? `${number(reason.score)} ± ${number(2 * reason.std, 2)}` : "–"),
      cell(reason ? [share(reason.chosen), percent(reason.chosen)] : "–"),
    );
  });
  const columns = [
    { words: "Item" },
    { words: "Came back", isNumber: true },
    { words: "When" },
    { words: "After", isNumber: true },
    { words: "Believed, two std", isNumber: true },
    { words: "Probability of being chosen", isNumber: true },
  ];
  return table("Chosen items", columns, rows);
}

function notes({ by_default: byDefault, corrected }) {
  return [
    byDefault ? el("span", { class: "mark" }, "by default") : null,
    corrected ? el("span", { class: "mark" }, "corrected") : null,
  ];
}

/** What each feature adds to the score of each item, on one scale. */
function whyOf(found) {
  if (found.reasons.length === 0) {
    return nothing("This learner gives no reasons, or the items are gone.");
  }
  const parts = found.reasons.map((reason) => ({ reason, listed: partsOf(reason) }));
  const reach = Math.max(
    1e-12,
    ...parts.flatMap(({ listed }) => listed.map(({ value }) => Math.abs(value))),
  );
  const blocks = parts.map(({ reason, listed }) => blockOf(reason, listed, reach));
  const then =
    found.believed === found.explained ? "" : " Reasons are by what is believed now, not then.";
  return el(
    "div",
    {},
    el("p", { class: "summary" }, `What each feature adds to the score.${then}`),
    el("div", { class: "pair" }, blocks),
  );
}

function partsOf({ contributions, deviation }) {
  const entries = Array.isArray(contributions)
    ? contributions.map((value, i) => ({ name: `feature ${i}`, value }))
    : Object.entries(contributions).map(([name, value]) => ({ name, value }));
  entries.push({ name: "the item's own", value: deviation });
  const some = entries.filter(({ value }) => value !== 0);
  return some.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

function blockOf(reason, listed, reach) {
  const rows = listed
    .slice(0, TOP)
    .map(({ name, value }) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, el("bdi", { class: "id" }, name)),
        el("td", {}, bar(value, reach)),
        cell(signed(value)),
      ),
    );
  const columns = [
    { words: "Feature" },
    { words: "Less or more" },
    { words: "Adds", isNumber: true },
  ];
  const label = String(reason.item).slice(0, 100);
  return el(
    "div",
    {},
    el("h3", {}, idOf(reason.item)),
    rows.length > 0
      ? table(`Why ${label}`, columns, rows)
      : nothing("No feature speaks for or against it."),
    listed.length > TOP
      ? el("p", { class: "summary" }, `and ${count(listed.length - TOP)} smaller ones`)
      : null,
  );
}

function runnersOf(runners) {
  if (runners.length === 0) {
    return nothing("There was nothing else to choose.");
  }
  const rows = runners.map(({ item, score, chosen }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, idOf(item)),
      cell(number(score)),
      cell(share(chosen), percent(chosen)),
    ),
  );
  const columns = [
    { words: "Item" },
    { words: "Believed", isNumber: true },
    { words: "Probability of being chosen", isNumber: true },
  ];
  return table("Runners-up", columns, rows);
}
