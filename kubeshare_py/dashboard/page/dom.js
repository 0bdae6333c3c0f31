// Elements and texts. Everything that is shown goes through `text`: nothing is ever read as markup.

// Control characters, and marks that turn the direction of a text around, are shown and not obeyed.
const ODD = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function printable(value) {
  return String(value).replace(ODD, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function text(value) {
  return document.createTextNode(printable(value));
}

// An element with attributes (`class`, `aria-label`; a function for `onclick`) and children.
// Children are nodes, texts, or lists of them; null and false are left out.
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : printable(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : text(child));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// A name stands apart from the direction of the text around it.
export function name(value) {
  return h("bdi", null, value);
}

export function byId(id) {
  return document.getElementById(id);
}

// Runs a function at the next frame, once however often it is asked for.
export function atNextFrame(run) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      run();
    });
  };
}

// Tells readers of the screen one sentence.
export function tell(sentence) {
  byId("told").textContent = printable(sentence);
}
