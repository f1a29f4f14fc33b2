// The keys of the service: who may do what.

import { get, leave, loadSession, remove, session } from "../api.js";
import { el, fill, say } from "../dom.js";
import { moment } from "../format.js";
import { problemOf, table } from "../parts.js";

export async function show({ root, signal }) {
  const place = el("div", {});
  const answer = el("div", {});
  fill(
    root,
    el("h1", {}, "Keys"),
    el(
      "p",
      { class: "words" },
      "Only hashes of keys are kept. New ones come from ",
      el("code", {}, "superarm keys create"),
      ".",
    ),
    el("section", { class: "card" }, answer, place),
  );

  async function update() {
    const { keys } = await get("v1/keys", {}, signal);
    fill(place, tableOf(keys, revoke));
  }

  async function revoke(key) {
    if (!(await confirmed(root, key))) {
      return;
    }
    try {
      await remove(`v1/keys/${encodeURIComponent(key.id)}`);
      say(`Key ${key.id} is revoked.`);
      if (key.id === session.key?.id) {
        leave();
        await loadSession();
        return;
      }
      await update();
    } catch (error) {
      fill(answer, problemOf(error));
    }
  }

  await update();
}

function tableOf(keys, revoke) {
  const rows = keys.map((key) =>
    el(
      "tr",
      {},
      el(
        "th",
        { scope: "row" },
        el("code", {}, key.id),
        key.id === session.key?.id ? " (yours)" : "",
      ),
      el("td", {}, key.note),
      el("td", {}, key.scopes.join(", ")),
      el("td", {}, moment(key.created)),
      el("td", {}, key.revoked ? `revoked ${moment(key.revoked)}` : revokeButton(key, revoke)),
    ),
  );
  const columns = ["Key", "Note", "For", "Created", "State"].map((words) => ({ words }));
  return table("Keys", columns, rows);
}

function revokeButton(key, revoke) {
  const given = {
    type: "button",
    class: "danger",
    "aria-label": `Revoke key ${key.id}`,
    onclick: () => revoke(key),
  };
  return el("button", given, "Revoke");
}

/** Ask whether a key is to be revoked. */
function confirmed(root, key) {
  const own = key.id === session.key?.id ? " It is the one you are logged in with." : "";
  const dialog = el(
    "dialog",
    { "aria-labelledby": "revoking" },
    el("h2", { id: "revoking" }, `Revoke key ${key.id}?`),
    el("p", {}, `Whoever uses it is refused from then on, and it cannot be undone.${own}`),
    el(
      "form",
      { method: "dialog", class: "buttons" },
      el("button", { value: "no" }, "Keep it"),
      el("button", { value: "yes", class: "danger" }, "Revoke"),
    ),
  );
  root.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}
