// A list of which only the part in sight is in the document, however long it is.

import { h } from "./dom.js";

const BEYOND = 400; // pixels above and below what is in sight

// `heights()` makes the function from an item to its pixels, `keyOf(item)`, `draw(item)` makes an element, `isSame(a, b)` tells
// whether an element of one item may stay for the other.
export class LongList {
  constructor({ heights, keyOf, draw, isSame, attributes = {} }) {
    Object.assign(this, { heights, keyOf, draw, isSame });
    this.items = [];
    this.offsets = new Float64Array(1);
    this.shown = new Map();
    this.element = h("div", { class: "long", ...attributes });
    this.onScroll = () => this.show();
    addEventListener("scroll", this.onScroll, { passive: true });
    addEventListener("resize", this.onScroll, { passive: true });
  }

  end() {
    removeEventListener("scroll", this.onScroll);
    removeEventListener("resize", this.onScroll);
  }

  set(items) {
    this.items = items;
    this.offsets = new Float64Array(items.length + 1);
    const heightOf = this.heights();
    for (let at = 0; at < items.length; at += 1) this.offsets[at + 1] = this.offsets[at] + heightOf(items[at]);
    this.element.style.height = `${this.offsets[items.length]}px`;
    this.show();
  }

  // The number of the item at this height.
  at(y) {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offsets[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Draws what is in sight. Elements that stay as they are cost nothing.
  show() {
    if (!this.element.isConnected) return;
    const top = -this.element.getBoundingClientRect().top;
    const first = this.at(Math.max(0, top - BEYOND));
    const last = Math.min(this.items.length, this.at(top + innerHeight + BEYOND) + 1);
    const before = this.shown;
    const shown = new Map();
    // An element with the focus stays while its item does, so that the focus is not lost.
    const focused = this.element.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
    const numbers = [];
    for (let at = first; at < last; at += 1) numbers.push(at);
    if (focused !== null && !numbers.some((at) => this.keyOf(this.items[at]) === focused)) {
      const at = this.items.findIndex((item) => this.keyOf(item) === focused);
      if (at >= 0) numbers.push(at);
    }
    numbers.sort((one, other) => one - other);
    // What is out of sight goes first: else all that stays would be moved in front of it.
    const wanted = new Set(numbers.map((at) => this.keyOf(this.items[at])));
    for (const [key, { element }] of before) {
      if (wanted.has(key)) continue;
      element.remove();
      before.delete(key);
    }
    let place = this.element.firstChild;
    for (const at of numbers) {
      const item = this.items[at];
      const key = this.keyOf(item);
      const known = before.get(key);
      let element = known?.element;
      let within = null;
      if (!known || !this.isSame(known.item, item)) {
        element = this.draw(item, at);
        element.dataset.key = key;
        if (known) {
          const active = document.activeElement;
          within = known.element.contains(active) ? active.dataset.focus : null;
          if (place === known.element) place = place.nextSibling;
          known.element.remove();
        }
      }
      if (element === place) place = place.nextSibling;
      else this.element.insertBefore(element, place);
      if (within) element.querySelector(`[data-focus="${CSS.escape(within)}"]`)?.focus({ preventScroll: true });
      const drawnAt = [at, this.items.length, this.offsets[at], this.offsets[at + 1]].join();
      shown.set(key, { item, element, drawnAt });
      if (known?.element === element && known.drawnAt === drawnAt) continue;
      element.style.transform = `translateY(${this.offsets[at]}px)`;
      element.style.height = `${this.offsets[at + 1] - this.offsets[at]}px`;
      if (element.getAttribute("role") === "row") element.setAttribute("aria-rowindex", at + 2);
      else {
        element.setAttribute("aria-posinset", at + 1);
        element.setAttribute("aria-setsize", this.items.length);
      }
    }
    this.shown = shown;
  }

  // Brings an item into sight.
  reveal(at) {
    const rect = this.element.getBoundingClientRect();
    const head = document.querySelector(".top").offsetHeight + 8;
    const top = rect.top + this.offsets[at];
    const bottom = rect.top + this.offsets[at + 1];
    if (top < head) scrollBy(0, top - head);
    else if (bottom > innerHeight) scrollBy(0, bottom - innerHeight + 8);
    this.show();
  }
}

// A table whose rows are a LongList. `columns` are { title, of(item), class }.
export class LongTable {
  constructor({ label, columns, keyOf, isSame, open, rowHeight }) {
    this.columns = columns;
    this.list = new LongList({
      heights: () => {
        const height = rowHeight();
        return () => height;
      },
      keyOf,
      isSame,
      attributes: { role: "rowgroup" },
      draw: (item, at) =>
        h(
          "div",
          { role: "row", class: "row", onclick: open && ((event) => { if (!event.target.closest("button, a")) open(item); }) },
          columns.map((column) => h("div", { role: "cell", class: `cell ${column.class ?? ""}`, "data-title": column.title }, column.of(item, at))),
        ),
    });
    this.head = h(
      "div",
      { role: "rowgroup", class: "head" },
      h("div", { role: "row", class: "row", "aria-rowindex": 1 }, columns.map((column) => h("div", { role: "columnheader", class: `cell ${column.class ?? ""}` }, column.title))),
    );
    this.element = h("div", { role: "table", class: "table", "aria-label": label }, this.head, this.list.element);
  }

  set(items) {
    this.element.setAttribute("aria-rowcount", items.length + 1);
    this.list.set(items);
  }

  end() {
    this.list.end();
  }
}
