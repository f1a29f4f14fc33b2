// The items of an agent: how often each was chosen, and what came back.

import { get, of } from "../api.js";
import { el, fill, idOf, say, settled } from "../dom.js";
import { between, count, number, signed } from "../format.js";
import { agentHead, cell, nothing, table } from "../parts.js";
import { here, note } from "../router.js";

const PER_PAGE = 50;
/** Columns that are observed, and not believed. */
const OBSERVED = 4;
const COLUMNS = [
  { sort: "item", words: "Item", first: "asc" },
  { sort: "chosen", words: "Chosen", first: "desc" },
  { sort: "mean", words: "Mean weight", first: "desc" },
  {
    sort: null,
    words: "95 % interval",
    title: "of the mean: Wilson's where all weights are 0 or 1, else Student's",
  },
  { sort: "predicted", words: "Believed", first: "desc" },
  { sort: "deviation", words: "Differs from features", first: "desc" },
];

export async function show({ root, params, signal }) {
  const { agent } = params;
  const asked = askedFor();
  const place = el("div", {});
  const search = el("input", {
    type: "search",
    value: asked.search,
    placeholder: "Find an item",
    "aria-label": "Find an item",
  });
  const words = el("p", { class: "summary", role: "status" });
  const back = el("button", { type: "button", onclick: () => turn(-PER_PAGE) }, "Previous");
  const on = el("button", { type: "button", onclick: () => turn(PER_PAGE) }, "Next");
  fill(
    root,
    agentHead(agent, `Items of ${agent}`),
    el(
      "section",
      { class: "card" },
      el("div", { class: "row" }, search, el("div", { class: "buttons" }, words, back, on)),
      place,
    ),
  );
  let turns = 0;

  async function update() {
    turns += 1;
    const mine = turns;
    const found = await get(of(agent, "/tallies"), { ...asked, limit: PER_PAGE }, signal);
    if (mine !== turns) {
      return; // another one was asked for meanwhile
    }
    note(asked);
    back.disabled = asked.start === 0;
    on.disabled = asked.start + PER_PAGE >= found.found;
    words.textContent = wordsOf(found, asked.start);
    fill(
      place,
      found.items.length > 0 ? tableOf(found.items, asked, order) : nothing("No item matches."),
    );
  }

  function turn(by) {
    asked.start = Math.max(0, asked.start + by);
    update();
  }

  function order(column) {
    const isSame = asked.sort === column.sort;
    const other = asked.order === "asc" ? "desc" : "asc";
    asked.order = isSame ? other : column.first;
    asked.sort = column.sort;
    asked.start = 0;
    update().then(() => {
      root.querySelector(`th[data-sort="${column.sort}"] button`)?.focus();
      say(`Sorted by ${column.words}, ${asked.order === "asc" ? "ascending" : "descending"}.`);
    });
  }

  search.addEventListener(
    "input",
    settled(200, () => {
      asked.search = search.value;
      asked.start = 0;
      update();
    }),
  );
  await update();
}

/** What the address asks for. */
function askedFor() {
  const { query } = here();
  return {
    search: query.get("search") ?? "",
    sort: query.get("sort") ?? "chosen",
    order: query.get("order") ?? "desc",
    start: Number.parseInt(query.get("start") ?? "0", 10) || 0,
  };
}

function wordsOf({ items, found, total }, start) {
  const shown =
    items.length === 0 ? "none" : `${count(start + 1)} to ${count(start + items.length)}`;
  const among = found === total ? "" : ` (${count(total)} in all)`;
  return `${shown} of ${count(found)}${among}`;
}

function tableOf(items, asked, order) {
  const isBelieved = items.some((one) => one.predicted !== null);
  const shown = isBelieved ? COLUMNS : COLUMNS.slice(0, OBSERVED);
  const columns = shown.map((column) => headOf(column, asked, order));
  const rows = items.map((one) => {
    const cells = [
      cell(count(one.chosen)),
      cell(number(one.mean)),
      cell(between(one.low, one.high)),
      cell(number(one.predicted)),
      cell(signed(one.deviation)),
    ];
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, idOf(one.item)),
      cells.slice(0, shown.length - 1),
    );
  });
  const words = "What is believed of an item depends on the context: a decision shows it.";
  const note = isBelieved ? null : el("p", { class: "summary" }, words);
  return el("div", {}, table("Items", columns, rows), note);
}

function headOf(column, asked, order) {
  const isNumber = column.sort !== "item";
  if (column.sort === null) {
    return { words: column.words, title: column.title, isNumber };
  }
  const directions = { asc: "ascending", desc: "descending" };
  return {
    words: el("button", { type: "button", onclick: () => order(column) }, column.words),
    isNumber,
    "data-sort": column.sort,
    "aria-sort": asked.sort === column.sort ? directions[asked.order] : "none",
  };
}
