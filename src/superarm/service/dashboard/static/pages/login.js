// Logging in with a key.

import { logIn } from "../api.js";
import { el, fill } from "../dom.js";
import { problemOf } from "../parts.js";

/** Log in with a key that came after # in the address, as the demo prints it, and take it away. */
export async function arrive() {
  const given = /^#key=([\w-]{1,200})$/.exec(location.hash);
  if (!given) {
    return;
  }
  history.replaceState(null, "", "#/");
  await logIn(given[1]).catch(() => null); // the page asks for another key
}

/** The form that asks for a key. */
export function show({ root }) {
  const input = el("input", {
    id: "key",
    name: "key",
    type: "password",
    autocomplete: "current-password",
    required: true,
    spellcheck: "false",
    placeholder: "sa_…",
  });
  const button = el("button", { class: "main" }, "Log in");
  const answer = el("div", {});
  const form = el(
    "form",
    { class: "card login" },
    el("h1", {}, "Log in"),
    el("label", { for: "key" }, "Key"),
    input,
    button,
    answer,
    el(
      "p",
      { class: "hint" },
      "The service printed a key when it started for the first time. Another one for looking comes from ",
      el("code", {}, "superarm keys create --scope read"),
      ".",
    ),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(answer);
    try {
      await logIn(input.value);
      input.value = "";
      dispatchEvent(new Event("signed-in"));
    } catch (error) {
      fill(answer, problemOf(error));
      input.select();
    } finally {
      button.disabled = false;
    }
  });
  fill(root, form);
  input.focus();
}
