// Who holds how much, and who held how much over a time: by team, pod, model or node.

import * as api from "./api.js";
import { fill, h, name, tell } from "./dom.js";
import { LongTable } from "./lists.js";
import { rem } from "./cards.js";
import { moment } from "./past.js";
import { cards as shareOf, memory, model, number, percent, teamColour } from "./words.js";

const HOUR = 3600000;
// The times that usage is added up over, in hours; the address has their names.
const OVER = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };
const AGAIN = 60000; // ms after which what was held until now is asked for again
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const hours = (value) => (value && value < 0.05 ? "< 0.1" : tenth.format(value));
const BY = { team: "Team", pod: "Pod", model: "Model", node: "Node" };

export class UsageView {
  constructor({ state, url, past }) {
    this.state = state;
    this.url = url;
    this.past = past;
    this.overs = ["", ...Object.keys(OVER)].map((over) =>
      h("button", { type: "button", "data-over": over, onclick: () => { url.set({ over }); tell(over ? `Usage over ${over}` : "Usage at this moment"); } }, over || "Now"),
    );
    this.over = h("p", { class: "choice", role: "group", "aria-label": "Usage over" }, this.overs);
    this.notes = h("div");
    this.buttons = Object.entries(BY).map(([by, title]) =>
      h("button", { type: "button", "data-by": by, onclick: () => { url.set({ by: by === "team" ? "" : by }); tell(`Usage by ${by}`); } }, title),
    );
    this.lead = h("p", { class: "lead" });
    this.body = h("div");
    this.element = h(
      "div",
      { class: "view" },
      h("h1", null, "Usage"),
      h("div", { class: "choices" }, h("p", { class: "choice", role: "group", "aria-label": "Usage by" }, this.buttons), this.over),
      this.lead,
      this.notes,
      this.body,
    );
  }

  end() {
    this.asking?.abort();
    this.table?.end();
  }

  update() {
    const by = BY[this.url.get("by")] ? this.url.get("by") : "team";
    const over = this.past.isThere && OVER[this.url.get("over")] ? this.url.get("over") : "";
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.by === by));
    for (const button of this.overs) button.setAttribute("aria-pressed", String(button.dataset.over === over));
    this.over.hidden = !this.past.isThere;
    const shown = `${by} ${over}`;
    if (this.shown !== shown) {
      this.shown = shown;
      this.asking?.abort();
      this.askedFor = null;
      fill(this.notes);
      if (over) this.beginOver(by, over);
      else this.begin(by);
    }
    if (over) {
      this.ask(by, over);
      return;
    }
    const rows = this.state.usage(by);
    this.totals = this.state.totals();
    this.most = rows.reduce((largest, row) => Math.max(largest, row.share), 1);
    fill(this.lead, by === "team" || by === "pod" ? "What pods hold of cards at this moment. “Its cards are busy” is the mean of all cards on which it holds a part: other pods keep them busy too." : "What pods hold of these cards at this moment, and how busy the cards are.");
    this.table.set(rows);
  }

  // What was held until now, or until the time in the past that is shown.
  async ask(by, over) {
    const at = this.state.at;
    if (at === this.askedFor && (at || performance.now() - this.askedAt < AGAIN)) return;
    this.asking?.abort();
    const asking = new AbortController();
    Object.assign(this, { asking, askedFor: at, askedAt: performance.now() });
    const to = this.state.now;
    try {
      const answer = await api.pastUsage(to - OVER[over] * HOUR, to, by, asking.signal);
      if (asking.signal.aborted) return;
      this.most = answer.rows.reduce((largest, row) => Math.max(largest, row.card_hours), 0) || 1;
      this.lasted = Math.max(1, answer.to - answer.from) / HOUR;
      fill(this.lead, `What pods held of cards from ${moment(answer.from)} to ${moment(answer.to)}, by the event log: a whole card held for an hour is one card-hour.`);
      fill(this.notes, answer.notes.length ? h("p", { class: "fine" }, `Not known: ${answer.notes.slice(0, 3).join("; ")}.`) : null);
      this.table.set(answer.rows);
    } catch (error) {
      if (asking.signal.aborted) return;
      if (!(error instanceof api.Refused)) throw error;
      fill(this.notes, h("p", { class: "problem" }, error.message));
    }
  }

  beginOver(by, over) {
    this.table?.end();
    fill(this.lead, "Reading the event log …");
    const isTeam = by === "team" || by === "pod";
    this.table = new LongTable({
      label: `Usage over ${over} by ${by}`,
      keyOf: (row) => row.key,
      isSame: (one, other) => one.card_hours === other.card_hours && one.gib_hours === other.gib_hours && one.pods === other.pods,
      rowHeight: () => (innerWidth < 45 * rem() ? 7 : 2.6) * rem(),
      columns: [
        { title: BY[by], class: "widest", of: (row) => [isTeam ? h("i", { class: "swatch", "--colour": teamColour(row.namespace) }) : null, titleOf(by, row, this.url)] },
        { title: "Card-hours", class: "meters", of: (row) => h("span", { class: "meter labelled", "--part": `${(row.card_hours * 100) / this.most}%` }, h("span", null, hours(row.card_hours))) },
        { title: "GiB-hours", class: "number", of: (row) => hours(row.gib_hours) },
        { title: "Cards, on average", class: "number", of: (row) => hours(row.card_hours / this.lasted) },
        { title: "Pods", class: "number", of: (row) => number(row.pods) },
      ],
    });
    fill(this.body, this.table.element);
  }

  begin(by) {
    this.table?.end();
    const isTeam = by === "team" || by === "pod";
    this.table = new LongTable({
      label: `Usage by ${by}`,
      keyOf: (row) => row.key,
      isSame: (one, other) => one.share === other.share && one.memory === other.memory && one.cards === other.cards && one.busy === other.busy && one.pods.size === other.pods.size,
      rowHeight: () => (innerWidth < 45 * rem() ? 8.5 : 2.6) * rem(),
      columns: [
        { title: BY[by], class: "widest", of: (row) => [isTeam ? h("i", { class: "swatch", "--colour": teamColour(row.namespace ?? "") }) : null, titleOf(by, row, this.url)] },
        { title: "Share held", class: "meters", of: (row) => h("span", { class: "meter labelled", "--part": `${isTeam ? (row.share * 100) / this.most : percent(row.share, row.capacity)}%` }, h("span", null, `${shareOf(row.share)} ${isTeam ? "cards" : `of ${shareOf(row.capacity)}`}`)) },
        { title: "Memory held", class: "number", of: (row) => memory(row.memory) },
        { title: "Of the cluster", class: "number", of: (row) => `${percent(row.share, this.totals.capacity)} %` },
        { title: "Cards", class: "number", of: (row) => number(row.cards) },
        { title: "Pods", class: "number", of: (row) => number(row.pods.size) },
        { title: isTeam ? "Its cards are busy" : "Really busy", class: "number", of: (row) => (row.weight ? `${percent(row.busy / row.weight, 1000)} %` : "–") },
      ],
    });
    fill(this.body, this.table.element);
  }
}

// What a row is about: a link, where there is something to open.
function titleOf(by, row, url) {
  if (by === "pod" && row.key) return h("a", { href: url.with({ pod: row.key }), "data-focus": "name" }, name(row.key));
  if (by === "node") return h("a", { href: url.with({ node: row.key }), "data-focus": "name" }, name(row.key));
  if (by === "model") return name(model(row.key));
  return row.key ? name(row.key) : h("i", null, "other namespaces");
}
