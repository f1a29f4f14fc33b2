// A form that asks for a decision and gives feedback; the same as curl and as Python.

import { get, may, of, post } from "../api.js";
import { el, fill, idOf, say } from "../dom.js";
import { percent } from "../format.js";
import { agentHead, cell, problemOf, section, table } from "../parts.js";
import { link } from "../router.js";
import { asCurl, asPython, codeOf } from "../requests.js";

export async function show({ root, params, signal }) {
  const { agent } = params;
  const [about, listed] = await Promise.all([
    get(of(agent), {}, signal),
    get(of(agent, "/items"), { limit: 1 }, signal),
  ]);
  const form = formOf({ ...about, hasNumbers: typeof listed.items[0] === "number" });
  const answer = el("div", {});
  const code = el("div", {});
  const again = () => fill(code, ...requestOf(agent, form.read()));
  fill(
    root,
    agentHead(agent, `Try ${agent}`),
    section("Decide", scopeHint("decide"), form.element),
    answer,
    section("The same by other means", code),
  );
  again();
  form.element.addEventListener("input", again);
  form.element.addEventListener("submit", async (event) => {
    event.preventDefault();
    form.button.disabled = true;
    try {
      const { body, problem } = form.read();
      if (problem) {
        throw new Error(problem);
      }
      const made = await post(of(agent, "/decisions"), body, signal);
      fill(answer, section("Decision", madeOf(agent, made, signal)));
      say(`Decided for ${made.items.join(", ")}`.slice(0, 300));
    } catch (error) {
      fill(answer, problemOf(error));
    } finally {
      form.button.disabled = false;
    }
  });
}

function scopeHint(scope) {
  return may(scope)
    ? null
    : el("p", { class: "hint" }, `This needs a key for ${scope}, which yours is not.`);
}

// --- the form -------------------------------------------------------------------------------------

function formOf(about) {
  const names = about.context?.names ?? [];
  const numbers = names.map((name, i) =>
    el("input", { id: `context-${i}`, type: "number", step: "any", value: "0", required: true }),
  );
  const available = el("textarea", {
    id: "available",
    rows: "3",
    spellcheck: "false",
    placeholder: "all items",
  });
  const oracle = el("textarea", {
    id: "oracle",
    class: "code",
    rows: "3",
    spellcheck: "false",
    placeholder: JSON.stringify(about.oracle).slice(0, 200),
  });
  const draws = el("input", { id: "draws", type: "number", min: "0", max: "100000", value: "0" });
  const user = el("input", { id: "user", autocomplete: "off", maxlength: "200" });
  const button = el("button", { class: "main" }, "Decide");
  const context = el(
    "fieldset",
    {},
    el("legend", {}, "Context"),
    el(
      "div",
      { class: "fields" },
      names.map((name, i) => field(name, numbers[i])),
    ),
  );
  const element = el(
    "form",
    {},
    names.length > 0 ? context : null,
    el(
      "div",
      { class: "fields" },
      field("Draws, for propensities", draws),
      field("User, to be erased by", user),
      field("Available items, one per line", available, true),
      field("Another constraint, as JSON", oracle, true),
    ),
    el("div", { class: "buttons" }, button),
  );
  const read = () => bodyOf({ names, numbers, available, oracle, draws, user }, about);
  return { element, button, read };
}

function field(words, input, isWide = false) {
  const label = el("label", { for: input.id }, el("bdi", {}, words));
  return el("div", { class: isWide ? "field wide" : "field" }, label, input);
}

/** The body of the request, and what is wrong with it. */
function bodyOf({ names, numbers, available, oracle, draws, user }, about) {
  const body = {};
  if (names.length > 0) {
    body.context = Object.fromEntries(names.map((name, i) => [name, Number(numbers[i].value)]));
  }
  const listed = available.value
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  if (listed.length > 0) {
    body.available = listed.map((text) =>
      about.hasNumbers && /^-?\d{1,15}$/.test(text) ? Number(text) : text,
    );
  }
  if (Number(draws.value) > 0) {
    body.draws = Number(draws.value);
  }
  if (user.value) {
    body.user = user.value;
  }
  if (oracle.value.trim() === "") {
    return { body, problem: null };
  }
  try {
    body.oracle = JSON.parse(oracle.value);
  } catch (error) {
    return { body, problem: `the constraint is not JSON: ${error.message}` };
  }
  return { body, problem: null };
}

function requestOf(agent, { body }) {
  return [
    codeOf("curl", asCurl(agent, "decisions", body)),
    codeOf("Python", asPython(agent, body)),
  ];
}

// --- the answer -----------------------------------------------------------------------------------

function madeOf(agent, made, signal) {
  const inputs = made.items.map((item, i) =>
    el("input", {
      type: "number",
      step: "any",
      id: `weight-${i}`,
      "aria-label": `Weight of ${String(item).slice(0, 100)}`,
    }),
  );
  const answer = el("div", { role: "status" });
  const code = el("div", {});
  const button = el("button", { class: "main" }, "Give feedback");
  const rows = made.items.map((item, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, idOf(item, true)),
      made.propensity ? cell(percent(made.propensity[i])) : null,
      el("td", {}, inputs[i]),
    ),
  );
  const columns = [{ words: "Chosen" }, { words: "What came back" }];
  if (made.propensity) {
    columns.splice(1, 0, { words: "Propensity", isNumber: true });
  }
  const read = () => feedbackOf(made, inputs);
  const again = () => fill(code, codeOf("Feedback as curl", asCurl(agent, "feedback", read())));
  const form = el(
    "form",
    { oninput: again },
    table("Chosen items", columns, rows),
    scopeHint("feedback"),
    el("div", { class: "buttons" }, button, decisionLink(agent, made.id)),
    answer,
    code,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const taken = await post(of(agent, "/feedback"), read(), signal);
      fill(answer, el("p", {}, `Learned ${taken.learned}, known already ${taken.repeated}.`));
    } catch (error) {
      fill(answer, problemOf(error));
    }
  });
  again();
  return form;
}

function decisionLink(agent, id) {
  const at = `/agents/${encodeURIComponent(agent)}/decisions/${encodeURIComponent(id)}`;
  return el("a", { href: link(at) }, `Decision ${id}`);
}

/** Weights in the order of the items, or by item where some are left out. */
function feedbackOf(made, inputs) {
  const known = made.items
    .map((item, i) => [item, inputs[i].value])
    .filter(([, value]) => value !== "");
  if (known.length === made.items.length) {
    return { decision: made.id, weights: known.map(([, value]) => Number(value)) };
  }
  return {
    decision: made.id,
    weights: Object.fromEntries(known.map(([item, value]) => [item, Number(value)])),
  };
}
