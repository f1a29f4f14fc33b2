// Requests to the service this page comes from.

/** What the service refused, in its own words. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `status ${status}`);
    this.status = status;
    this.fields = document.errors || [];
  }
}

/** Who is logged in, if anybody is. */
export let session = { csrf: "", key: null };

/** Ask who is logged in. */
export async function loadSession() {
  session = await asked("GET", "session");
  return session.key;
}

/** Log in with a key. */
export async function logIn(key) {
  await loadSession(); // another tab may have logged in or out meanwhile
  session = await asked("POST", "session", { key });
}

/** Log out, and tell the page. */
export async function logOut() {
  await asked("DELETE", "session");
  leave();
}

/** Whether the key of this session is for something. */
export function may(scope) {
  const scopes = session.key?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}

export function get(path, given = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value !== null && value !== undefined && value !== "") {
      query.set(name, value);
    }
  }
  const text = query.toString();
  return call("GET", text ? `${path}?${text}` : path, undefined, signal);
}

export function post(path, body, signal = undefined) {
  return call("POST", path, body, signal);
}

export function remove(path) {
  return call("DELETE", path);
}

/** The answer to a request; without a session, the page asks to log in. */
async function call(method, path, body = undefined, signal = undefined) {
  try {
    return await asked(method, path, body, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 401) {
      leave();
    }
    throw error;
  }
}

/** Nobody is logged in any more. */
export function leave() {
  session = { csrf: "", key: null };
  dispatchEvent(new Event("signed-out"));
}

async function asked(method, path, body = undefined, signal = undefined) {
  const headers = {};
  if (method !== "GET") {
    headers["X-CSRF-Token"] = session.csrf;
  }
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  const content = body === undefined ? undefined : JSON.stringify(body);
  const reply = await fetch(path, { method, headers, signal, body: content }).catch(away);
  const text = await reply.text();
  if (!reply.ok) {
    throw new Problem(reply.status, parsed(text));
  }
  return text ? read(text) : null;
}

/** JSON, in which whole numbers that JavaScript cannot hold stay text: they are ids. */
function read(text) {
  if (!/\d{16}/.test(text)) {
    return JSON.parse(text);
  }
  return JSON.parse(text, (_, value, context) => {
    const isWhole = Number.isInteger(value) && /^-?\d+$/.test(context?.source ?? "");
    return isWhole && !Number.isSafeInteger(value) ? context.source : value;
  });
}

function away(error) {
  if (error.name === "AbortError") {
    throw error;
  }
  throw new Problem(0, { detail: "the service does not answer: is it running?" });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** The address of an agent. */
export function of(agent, rest = "") {
  return `v1/agents/${encodeURIComponent(agent)}${rest}`;
}
