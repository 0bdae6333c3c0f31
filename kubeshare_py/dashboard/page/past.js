// The bar with the time of what is shown: now, or a moment that the event log covers.

import * as api from "./api.js";
import { byId, fill, h, name, tell } from "./dom.js";

const MARKS = 8; // that are shown of what happened before
const HAPPENED = { placed: "was placed on", evicted: "was evicted", nominated: "waited for room on" };
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

// "30 Nov 2026, 14:03:12" in the viewer's time zone, the time alone if that is today.
export function moment(ms) {
  return (new Date(ms).toDateString() === new Date().toDateString() ? clock : day).format(ms);
}

// The time in the address: RFC 3339, so that links mean the same everywhere. 0 is now.
const inAddress = (ms) => (ms ? new Date(ms).toISOString() : "");
const ofAddress = (text) => Date.parse(text) || 0;

export class PastBar {
  constructor({ url }) {
    this.url = url;
    this.element = byId("past-bar");
    this.button = byId("past");
    this.button.addEventListener("click", () => (this.at ? this.leave() : this.enter()));
    this.slider = h("input", { type: "range", id: "past-time", oninput: () => this.said(Number(this.slider.value)), onchange: () => this.go(Number(this.slider.value)) });
    this.shown = h("output", { for: "past-time" });
    this.marks = h("ul", { class: "plain-list" });
    this.note = h("p", { class: "fine", role: "status" });
    fill(
      this.element,
      h("p", { class: "past-line" }, h("label", { for: "past-time" }, "Time"), this.slider, this.shown, h("button", { type: "button", onclick: () => this.leave() }, "Back to now")),
      this.note,
      h("details", null, h("summary", null, "What happened before"), this.marks),
    );
  }

  // Whether there is an event log is known once the viewer is.
  set isThere(there) {
    this.button.hidden = !there;
  }

  get isThere() {
    return !this.button.hidden;
  }

  get at() {
    return this.button.hidden ? 0 : ofAddress(this.url.get("at"));
  }

  async enter() {
    try {
      await this.read();
    } catch (error) {
      if (!(error instanceof api.Refused)) throw error;
      tell(error.message);
      this.element.hidden = false;
      this.note.textContent = error.message;
      return;
    }
    this.go(this.spans.at(-1)[1]);
    this.slider.focus();
  }

  // The next viewer may see other pods, or none.
  clear() {
    this.isThere = false;
    this.element.hidden = true;
    fill(this.marks);
    this.note.textContent = "";
  }

  leave() {
    this.url.set({ at: "" });
    tell("Now");
    this.button.focus();
  }

  go(ms) {
    this.url.set({ at: inAddress(ms) });
  }

  // Which times the log covers.
  async read(signal) {
    this.spans = (await api.past(signal)).spans;
    if (!this.spans.length) throw new api.Refused(0, "the event log is empty");
    const [first, last] = [this.spans[0][0], this.spans.at(-1)[1]];
    this.slider.min = first;
    this.slider.max = last;
    this.slider.step = Math.max(1000, Math.round((last - first) / 2000));
  }

  // Shows the bar, or hides it for 0.
  update(at) {
    this.element.hidden = !at;
    this.button.textContent = at ? "Now" : "Past";
    if (!at) return;
    this.slider.value = at;
    this.said(at);
  }

  said(ms) {
    this.shown.textContent = moment(ms);
    this.slider.setAttribute("aria-valuetext", moment(ms));
  }

  reading(to) {
    this.note.textContent = to ? `Reading the event log: ${moment(to)} …` : "Reading the event log …";
  }

  failed(message) {
    this.note.textContent = message;
    fill(this.marks);
  }

  // An answer about that time arrived.
  taken(answer, at) {
    const known = this.spans.findLast(([begin]) => begin <= at);
    const words = known && at - known[1] > 1000 ? [`No log was written at that time: this is how the one before it ended, at ${moment(known[1])}.`] : [];
    if (answer.note) words.push(`The log is damaged: ${answer.note}.`);
    this.note.textContent = words.join(" ") || `As it was after what happened at ${moment(answer.at)}.`;
    fill(
      this.marks,
      answer.marks.length
        ? answer.marks.slice(0, MARKS).map(([ms, what, pod, node]) =>
            h("li", null, h("a", { href: this.url.with({ at: inAddress(ms) }) }, moment(ms)), " ", h("a", { href: this.url.with({ pod, at: inAddress(ms) }) }, name(pod)), ` ${HAPPENED[what]} `, node ? name(node) : null),
          )
        : h("li", null, "No pod was placed or evicted before, as far as the log goes."),
    );
  }
}
