// The pods that wait, in the order in which they are tried.

import { fill, h, name } from "./dom.js";
import { LongTable } from "./lists.js";
import { rem } from "./cards.js";
import { age, count, stateOf } from "./words.js";

export class QueueView {
  constructor({ state, url }) {
    this.state = state;
    this.url = url;
    this.lead = h("p", { class: "lead" });
    this.empty = h("p", { class: "empty", hidden: true }, "No pod waits.");
    this.table = new LongTable({
      label: "Pods that wait, in the order in which they are tried",
      keyOf: (pod) => pod.uid,
      isSame: (one, other) => one === other,
      rowHeight: () => (innerWidth < 45 * rem() ? 8.5 : 3.1) * rem(),
      open: (pod) => url.open({ pod: pod.key }),
      columns: [
        { title: "Place", class: "number narrow", of: (pod) => (pod.state === "gated" ? "–" : String(this.places.get(pod.uid))) },
        { title: "Pod", class: "wide", of: (pod) => [h("a", { href: url.with({ pod: pod.key }), "data-focus": "pod" }, name(pod.name)), h("span", { class: "fine block" }, name(pod.namespace))] },
        { title: "Asks for", class: "wide", of: (pod) => name(pod.asks) },
        { title: "Priority", class: "number", of: (pod) => `${pod.priority}${pod.labelPriority ? `, ${pod.labelPriority}` : ""}` },
        { title: "Waits", class: "number", of: (pod) => age(pod.created, this.state.now) },
        { title: "State", of: (pod) => h("span", { class: `chip ${pod.state === "gated" ? "bad" : "off"}`, title: stateOf(pod.state) }, pod.state) },
        { title: "Reason", class: "widest clamp", of: (pod) => name(pod.message) },
      ],
    });
    this.element = h("div", { class: "view" }, h("h1", null, "Queue"), this.lead, this.empty, this.table.element);
  }

  end() {
    this.table.end();
  }

  update() {
    const sought = this.url.get("q").trim().toLowerCase();
    const all = this.state.waiting();
    const tried = all.filter((pod) => pod.state !== "gated");
    this.places = new Map(tried.map((pod, at) => [pod.uid, at + 1]));
    const shown = sought ? all.filter((pod) => pod.key.includes(sought)) : all;
    fill(
      this.lead,
      `${count(tried.length, "pod")} in the queue, ${count(all.length - tried.length, "pod")} not tried. The order is priority, then sharedgpu/priority, then age; a pod that fits passes one before it that fits nowhere.`,
    );
    this.empty.hidden = shown.length > 0;
    this.table.element.hidden = !shown.length;
    this.table.set(shown);
  }
}
