// The page: who is logged in, where to go, and what is shown.

import { loadSession, logOut, may, session } from "./api.js";
import { el, fill, say, write } from "./dom.js";
import { onState } from "./live.js";
import { here, route, start } from "./router.js";
import { switchBy } from "./theme.js";
import * as login from "./pages/login.js";
import * as overview from "./pages/overview.js";

const PLACES = [
  { href: "#/", words: "Overview", scope: "read" },
  { href: "#/keys", words: "Keys", scope: "admin" },
  { href: "docs", words: "API", scope: null },
];

/** A page whose module is loaded when it is asked for. */
function later(name) {
  return async (view) => {
    const page = await import(`./pages/${name}.js`);
    await page.show(view);
  };
}

route("/", () => "Overview", overview.show);
route("/agents/:agent", ({ agent }) => agent, later("agent"));
route("/agents/:agent/items", ({ agent }) => `Items of ${agent}`, later("items"));
route("/agents/:agent/decisions", ({ agent }) => `Decisions of ${agent}`, later("decisions"));
route("/agents/:agent/decisions/:id", ({ id }) => `Decision ${id}`, later("decision"));
route("/agents/:agent/whatif", ({ agent }) => `What if · ${agent}`, later("whatif"));
route("/agents/:agent/try", ({ agent }) => `Try ${agent}`, later("tryit"));
route("/keys", () => "Keys", later("keys"));

const places = document.querySelector(".places");
const out = document.querySelector(".logout");
const status = document.querySelector(".status");

/** What the head of the page shows of who is logged in, and where we are. */
function head() {
  const isIn = session.key !== null;
  places.hidden = !isIn;
  out.hidden = !isIn;
  status.hidden = !isIn;
  out.title = isIn
    ? `${session.key.note || "key"} ${session.key.id}: ${session.key.scopes.join(" ")}`
    : "";
  const listed = PLACES.filter(({ scope }) => scope === null || may(scope));
  fill(
    places,
    listed.map(({ href, words }) =>
      el("a", { href, "aria-current": href === `#${here().path}` ? "page" : null }, words),
    ),
  );
}

onState((state) => {
  status.dataset.state = state;
  write(status, { live: "Live", waiting: "Connecting", paused: "Paused" }[state]);
  if (state === "waiting") {
    say("The connection to the service is interrupted.");
  }
});
out.addEventListener("click", logOut);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
addEventListener("turned", head);
switchBy(document.querySelector(".theme"));
await login.arrive();
await loadSession();
start(document.getElementById("main"), { title: () => "Log in", show: login.show });
