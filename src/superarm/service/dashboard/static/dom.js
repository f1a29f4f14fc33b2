// Elements, made of text and of other elements: whatever comes from the service stays text.

/** Characters of an id that has a place of its own to scroll in. */
const LONG = 300;
const SVG = "http://www.w3.org/2000/svg";

/**
 * An element.
 * @param {string} tag
 * @param {object} given attributes; functions are listeners, as `onclick`
 * @param {...(Node|string|number|null|undefined)} children
 */
export function el(tag, given = {}, ...children) {
  return filled(document.createElement(tag), given, children);
}

/** An element of SVG's. */
export function svg(tag, given = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), given, children);
}

function filled(element, given, children) {
  for (const [name, value] of Object.entries(given)) {
    set(element, name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function set(element, name, value) {
  if (typeof value === "function") {
    element.addEventListener(name.slice(2), value);
  } else if (value === true) {
    element.setAttribute(name, "");
  } else if (value !== false && value !== null && value !== undefined) {
    element.setAttribute(name, value);
  }
}

/** Put other children in the place of those that are there. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat().filter((child) => child !== null && child !== undefined),
  );
}

/** Write a text where it differs, so that readers are not told of what stays. */
export function write(element, text) {
  if (element.textContent !== String(text)) {
    element.textContent = text;
  }
}

/** Say something to those who do not see the page. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** An id of an item: in a direction of its own, and short enough for its place. */
export function idOf(item, full = false) {
  const text = String(item);
  if (full && text.length > LONG) {
    return el(
      "bdi",
      { class: "id long", tabindex: "0", role: "region", "aria-label": "A long id" },
      text,
    );
  }
  return el("bdi", { class: full ? "id whole" : "id", title: text.slice(0, LONG) }, text);
}

/** A function that runs once nobody has called it for some milliseconds. */
export function settled(milliseconds, run) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), milliseconds);
  };
}
