// Who holds how much now: by team, pod, model or node.

import { fill, h, name, tell } from "./dom.js";
import { LongTable } from "./lists.js";
import { rem } from "./cards.js";
import { cards as shareOf, memory, model, number, percent, teamColour } from "./words.js";

const BY = { team: "Team", pod: "Pod", model: "Model", node: "Node" };

export class UsageView {
  constructor({ state, url }) {
    this.state = state;
    this.url = url;
    this.buttons = Object.entries(BY).map(([by, title]) =>
      h("button", { type: "button", "data-by": by, onclick: () => { url.set({ by: by === "team" ? "" : by }); tell(`Usage by ${by}`); } }, title),
    );
    this.lead = h("p", { class: "lead" });
    this.body = h("div");
    this.element = h(
      "div",
      { class: "view" },
      h("h1", null, "Usage"),
      h("p", { class: "choice", role: "group", "aria-label": "Usage by" }, this.buttons),
      this.lead,
      this.body,
    );
  }

  end() {
    this.table?.end();
  }

  update() {
    const by = BY[this.url.get("by")] ? this.url.get("by") : "team";
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.by === by));
    if (this.by !== by) this.begin(by);
    const rows = this.state.usage(by);
    this.totals = this.state.totals();
    this.most = rows.reduce((largest, row) => Math.max(largest, row.share), 1);
    fill(this.lead, by === "team" || by === "pod" ? "What pods hold of cards at this moment. “Its cards are busy” is the mean of all cards on which it holds a part: other pods keep them busy too." : "What pods hold of these cards at this moment, and how busy the cards are.");
    this.table.set(rows);
  }

  begin(by) {
    this.by = by;
    this.table?.end();
    const isTeam = by === "team" || by === "pod";
    const titles = (row) => {
      if (by === "pod" && row.key) return h("a", { href: this.url.with({ pod: row.key }), "data-focus": "name" }, name(row.key));
      if (by === "node") return h("a", { href: this.url.with({ node: row.key }), "data-focus": "name" }, name(row.key));
      if (by === "model") return name(model(row.key));
      return row.key ? name(row.key) : h("i", null, "other namespaces");
    };
    this.table = new LongTable({
      label: `Usage by ${by}`,
      keyOf: (row) => row.key,
      isSame: (one, other) => one.share === other.share && one.memory === other.memory && one.cards === other.cards && one.busy === other.busy && one.pods.size === other.pods.size,
      rowHeight: () => (innerWidth < 45 * rem() ? 8.5 : 2.6) * rem(),
      columns: [
        { title: BY[by], class: "widest", of: (row) => [isTeam ? h("i", { class: "swatch", "--colour": teamColour(row.namespace ?? "") }) : null, titles(row)] },
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
