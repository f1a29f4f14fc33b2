// Requests as others would send them; the key stays a variable.

import { el } from "./dom.js";

/** The address of this service. */
function base() {
  return location.href.split("#")[0].replace(/\/$/, "");
}

/** A text as one word of a shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function asCurl(agent, what, body) {
  const url = `${base()}/v1/agents/${encodeURIComponent(agent)}/${what}`;
  return [
    `curl -s ${quoted(url)} \\`,
    `  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\`,
    `  -d ${quoted(JSON.stringify(body))}`,
  ].join("\n");
}

export function asPython(agent, body) {
  const { context, oracle, ...others } = body;
  const given = [];
  if (context) {
    given.push(literal(context));
  }
  for (const [name, value] of Object.entries(others)) {
    given.push(`${name}=${literal(value)}`);
  }
  const lines = ["import os", "", "from superarm.client import Client", ""];
  if (oracle) {
    lines.splice(2, 0, "from superarm.agent.specs import oracle_of");
    given.push(`oracle=oracle_of(${literal(oracle)})`);
  }
  return [
    ...lines,
    `with Client(${literal(base())}, key=os.environ["KEY"]) as client:`,
    `    agent = client.agent(${literal(agent)})`,
    `    decision = agent.decide(${given.join(", ")})`,
    "    print(decision.items)",
    "    agent.observe(decision, [0.0] * len(decision.items))  # what came back, per item",
  ].join("\n");
}

/** A value of JSON's as Python writes it. */
function literal(value) {
  if (value === true) {
    return "True";
  }
  if (value === false) {
    return "False";
  }
  if (value === null) {
    return "None";
  }
  if (Array.isArray(value)) {
    return `[${value.map(literal).join(", ")}]`;
  }
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([name, one]) => `${literal(name)}: ${literal(one)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value); // numbers and texts are the same in both
}

/** A block of code with a button that copies it. */
export function codeOf(title, text) {
  const copy = el(
    "button",
    { type: "button", class: "quiet", "aria-label": `Copy ${title}` },
    "Copy",
  );
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = "Copied";
  });
  return el(
    "div",
    {},
    el("div", { class: "code-head" }, el("h3", {}, title), copy),
    el("pre", { tabindex: "0", "aria-label": title, role: "region" }, el("code", {}, text)),
  );
}
