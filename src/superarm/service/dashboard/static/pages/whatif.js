// What another learner or another constraint would have earned, estimated from the log.

import { get, of, post } from "../api.js";
import { el, fill, say } from "../dom.js";
import { count, number, sentence, signed } from "../format.js";
import { SETTINGS } from "../learners.js";
import { agentHead, interval, nothing, problemOf, section, stylesOf, table } from "../parts.js";
import { forest } from "../forest.js";

/** What was asked on this page before, by agent, as long as the page is not loaded again. */
const asked = new Map();
const MARKS = { enough: "good", little: "wait", "too little to say": "bad" };

export async function show({ root, params, signal }) {
  const { agent } = params;
  const about = await get(of(agent), {}, signal);
  const results = asked.get(agent) ?? [];
  asked.set(agent, results);
  const place = el("div", {});
  const answer = el("div", {});
  const form = formOf(about);
  fill(
    root,
    agentHead(agent, `What if · ${agent}`),
    section(
      "Ask",
      el(
        "p",
        { class: "words" },
        "Another learner or constraint is run through the last decisions that were made with " +
          "propensities (draws) and have all their feedback.",
      ),
      form.element,
      answer,
    ),
    section("Side by side", place),
  );
  const draw = () => fill(place, ...compared(agent, results, draw));
  draw();
  form.element.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(answer);
    form.wait(true);
    say("Estimating.");
    try {
      const body = form.read();
      const found = await post(of(agent, "/whatif"), body, signal);
      results.push({ ...found, asked: body, kind: body.learner.kind });
      draw();
      say(`${found.learner}: ${found.verdicts.map(wordsOf).join("; ")}`);
    } catch (error) {
      if (!signal.aborted) {
        fill(answer, problemOf(error));
      }
    } finally {
      form.wait(false);
    }
  });
}

function wordsOf({ estimator, earned, support }) {
  return `${estimator} ${interval(earned)}, support: ${support}`;
}

// --- the form -------------------------------------------------------------------------------------

function formOf(about) {
  const kinds = Object.keys(SETTINGS);
  const kind = el(
    "select",
    { id: "kind" },
    kinds.map((name) => el("option", { value: name, selected: name === about.learner.kind }, name)),
  );
  const scales = el("div", { class: "fields" });
  const oracle = el("textarea", { id: "oracle", class: "code", rows: "6", spellcheck: "false" });
  oracle.value = JSON.stringify(about.oracle, null, 2);
  const last = el("input", { id: "last", type: "number", min: "10", max: "100000", value: "1000" });
  const button = el("button", { class: "main" }, "Estimate");
  const settings = el("fieldset", {}, el("legend", {}, "Its settings"), scales);
  const choose = () => {
    fill(scales, settingsOf(kind.value, about.learner));
    settings.hidden = scales.children.length === 0;
  };
  kind.addEventListener("change", choose);
  choose();
  const element = el(
    "form",
    {},
    el("div", { class: "fields" }, field("Learner", kind), field("Last decisions", last)),
    settings,
    el(
      "details",
      {},
      el("summary", {}, "Constraint, as JSON"),
      el("div", { class: "fields" }, field("Constraint", oracle, true)),
    ),
    el("div", { class: "buttons" }, button),
  );
  const read = () => ({
    learner: { kind: kind.value, ...readSettings(scales) },
    oracle: readJson(oracle),
    last: Number(last.value),
  });
  const wait = (isWaiting) => {
    button.disabled = isWaiting;
    button.textContent = isWaiting ? "Estimating …" : "Estimate";
  };
  return { element, read, wait };
}

function field(words, input, isWide = false) {
  const given = { class: isWide ? "field wide" : "field" };
  return el("div", given, el("label", { for: input.id }, words), input);
}

/** The settings of a kind of learner: those of the agent where it is the same kind. */
function settingsOf(kind, current) {
  return Object.entries(SETTINGS[kind]).map(([name, preset]) => {
    const own = current.kind === kind ? current[name] : undefined;
    const value = own ?? preset;
    const input = el("input", {
      id: `setting-${name}`,
      name,
      value: value === null ? "" : String(value),
    });
    return field(name, input);
  });
}

function readSettings(place) {
  const found = {};
  for (const input of place.querySelectorAll("input")) {
    const text = input.value.trim();
    if (text !== "") {
      found[input.name] = valueOf(text);
    }
  }
  return found;
}

/** A number, true, false, a list, or a word such as auto. */
function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function readJson(input) {
  try {
    return JSON.parse(input.value);
  } catch (error) {
    input.closest("details").open = true;
    throw new Error(`the constraint is not JSON: ${error.message}`);
  }
}

// --- the results ----------------------------------------------------------------------------------

function compared(agent, results, draw) {
  if (results.length === 0) {
    return [nothing("Nothing was asked yet.")];
  }
  const columns = [
    "Learner",
    "Constraint",
    "Estimator",
    "Return per decision",
    "Beside what was earned",
    "Support",
  ];
  const rows = results.flatMap((one, i) => rowsOf(one, i));
  const clear = () => {
    results.length = 0;
    draw();
  };
  return [
    drawing(results),
    table(
      "What would have been earned",
      columns.map((words) => ({ words })),
      rows,
    ),
    el(
      "div",
      { class: "buttons" },
      el(
        "button",
        { type: "button", onclick: () => save(`${agent}-what-if.csv`, "text/csv", csvOf(results)) },
        "Save as CSV",
      ),
      el(
        "button",
        {
          type: "button",
          onclick: () =>
            save(`${agent}-what-if.json`, "application/json", JSON.stringify(results, null, 2)),
        },
        "Save as JSON",
      ),
      el("button", { type: "button", onclick: clear }, "Clear"),
    ),
  ];
}

function drawing(results) {
  const styles = stylesOf([...new Set(results.map(({ kind }) => kind))]);
  const logged = results[results.length - 1].logged;
  const lines = [
    {
      words: "as it was",
      interval: logged,
      style: { color: "var(--text)", marker: "o", dash: [] },
    },
  ];
  results.forEach((one, i) => {
    for (const verdict of one.verdicts) {
      lines.push({
        words: `${i + 1} · ${one.kind}, ${verdict.estimator}`,
        interval: verdict.earned,
        style: styles[one.kind],
        isFaint: verdict.support !== "enough",
      });
    }
  });
  return forest("Return per decision", lines);
}

function rowsOf(one, i) {
  return one.verdicts.map((verdict, j) =>
    el(
      "tr",
      {},
      j === 0
        ? el("th", { scope: "rowgroup", rowspan: one.verdicts.length }, `${i + 1} · ${one.learner}`)
        : null,
      j === 0 ? el("td", { rowspan: one.verdicts.length }, one.constraint) : null,
      el("td", {}, verdict.estimator),
      el("td", {}, interval(verdict.earned)),
      el("td", {}, differenceOf(verdict.difference)),
      el("td", {}, supportOf(verdict, one.decisions)),
    ),
  );
}

function differenceOf(found) {
  if (!found) {
    return "–";
  }
  if (found.low === null) {
    return signed(found.value);
  }
  return `${signed(found.value)} (${signed(found.low)} to ${signed(found.high)})`;
}

function supportOf({ support, effective, words }, decisions) {
  const size =
    effective === null ? "" : ` worth ${number(effective, 2)} of ${count(decisions)} decisions`;
  return [
    el("span", { class: `mark ${MARKS[support] ?? ""}` }, support),
    size,
    ...words.map((text) => el("p", { class: "summary" }, sentence(text))),
  ];
}

// --- export ---------------------------------------------------------------------------------------

const FIELDS = ["value", "low", "high"];

function csvOf(results) {
  const head = [
    "learner",
    "constraint",
    "decisions",
    "logged",
    "estimator",
    "earned",
    "low",
    "high",
    "difference",
    "difference_low",
    "difference_high",
    "effective",
    "support",
  ];
  const rows = results.flatMap((one) =>
    one.verdicts.map((verdict) => [
      one.learner,
      one.constraint,
      one.decisions,
      one.logged.value,
      verdict.estimator,
      ...FIELDS.map((name) => verdict.earned?.[name]),
      ...FIELDS.map((name) => verdict.difference?.[name]),
      verdict.effective,
      verdict.support,
    ]),
  );
  return [head, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n");
}

/** A field of CSV; one that a spreadsheet would take for a formula stays text. */
function quoted(value) {
  if (typeof value === "number") {
    return String(value);
  }
  const text = String(value ?? "");
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
