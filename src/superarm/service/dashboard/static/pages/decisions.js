// The decisions of an agent, the last ones first.

import { get, of } from "../api.js";
import { el, fill, idOf, say } from "../dom.js";
import { count, moment, plain } from "../format.js";
import { agentHead, cell, nothing, table } from "../parts.js";
import { link } from "../router.js";

const PER_PAGE = 50;
/** How many items of a decision are shown in a row. */
const SHOWN = 6;

export async function show({ root, params, signal }) {
  const { agent } = params;
  const place = el("div", {});
  const older = el("button", { type: "button" }, "Older");
  const newest = el("button", { type: "button" }, "Newest");
  fill(
    root,
    agentHead(agent, `Decisions of ${agent}`),
    el("section", { class: "card" }, place, el("div", { class: "buttons" }, newest, older)),
  );
  let next = null;

  async function update(before) {
    const found = await get(of(agent, "/decisions"), { before, limit: PER_PAGE }, signal);
    next = found.before;
    older.disabled = next === null;
    fill(
      place,
      found.decisions.length > 0
        ? tableOf(agent, found.decisions)
        : nothing("There is no decision yet."),
    );
    say(`${found.decisions.length} decisions`);
  }

  older.addEventListener("click", () => update(next));
  newest.addEventListener("click", () => update(null));
  await update(null);
}

function tableOf(agent, decisions) {
  const columns = [
    { words: "Decision" },
    { words: "Time" },
    { words: "Items" },
    { words: "Came back", isNumber: true },
    { words: "Explored" },
  ];
  return table(
    "Decisions",
    columns,
    decisions.map((one) => rowOf(agent, one)),
  );
}

function rowOf(agent, one) {
  const at = `/agents/${encodeURIComponent(agent)}/decisions/${encodeURIComponent(one.id)}`;
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("a", { href: link(at) }, one.id)),
    el("td", {}, moment(one.time, true)),
    el("td", {}, chips(one.items)),
    cell(earnedOf(one.weights)),
    el("td", {}, exploredOf(one.explored)),
  );
}

function chips(items) {
  const more = items.length - SHOWN;
  return el(
    "ul",
    { class: "chips" },
    items.slice(0, SHOWN).map((item) => el("li", {}, idOf(item))),
    more > 0 ? el("li", {}, `${count(more)} more`) : null,
  );
}

function earnedOf(weights) {
  const known = weights.filter((weight) => weight !== null);
  if (known.length === 0) {
    return "nothing yet";
  }
  const sum = known.reduce((all, weight) => all + weight, 0);
  return known.length < weights.length ? `${plain(sum)} of ${known.length} items` : plain(sum);
}

function exploredOf(explored) {
  if (explored === null) {
    return "";
  }
  return el("span", { class: "mark" }, explored ? "yes" : "no");
}
