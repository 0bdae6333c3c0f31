// One pod, one card or one node: where, why, what would help, and what it shares.

import * as api from "./api.js";
import { fill, h, name, printable } from "./dom.js";
import { inWords, stateChip } from "./cards.js";
import { age, cards as shareOf, count, memory, number, pair, percent, stateOf, teamColour } from "./words.js";

const MEMBERS = 24; // of a gang that are listed
const AGAIN = 5000; // ms between two looks at a pod that waits

export class Details {
  constructor({ state, url, element }) {
    this.state = state;
    this.url = url;
    this.element = element;
    this.asked = null;
    element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  close() {
    this.url.open({ pod: "", card: "", node: "" });
  }

  update() {
    const shown = ["pod", "card", "node"].map((kind) => [kind, this.url.get(kind)]).find(([, value]) => value);
    const key = shown ? shown.join(" ") : "";
    const isNew = key !== this.key;
    this.key = key;
    document.body.classList.toggle("with-details", Boolean(shown));
    if (!shown) {
      this.stop();
      if (!this.element.hidden) {
        const active = document.activeElement;
        const wasInside = active === document.body || this.element.contains(active);
        this.element.hidden = true;
        fill(this.element);
        // Unless the reader has gone on to something else.
        if (!wasInside) return;
        if (this.from?.isConnected) this.from.focus({ preventScroll: true });
        else document.querySelector('.tile[tabindex="0"]')?.focus({ preventScroll: true });
      }
      return;
    }
    if (isNew) {
      this.stop();
      if (this.element.hidden) this.from = document.activeElement;
      this.element.hidden = false;
      this.drawn = undefined;
    }
    // What was asked about another time is no answer.
    if (this.at !== this.state.at) this.stop();
    this.at = this.state.at;
    const [kind, value] = shown;
    if (kind === "pod") this.pod(value);
    else if (kind === "card") this.card(value);
    else this.node(value);
    if (isNew) {
      this.element.scrollTop = 0;
      this.element.querySelector("h2")?.focus({ preventScroll: true });
    }
  }

  stop() {
    this.asking?.abort();
    this.asking = null;
    this.why = null;
    this.refused = "";
    this.lastAsked = 0;
    this.lastRow = undefined;
  }

  // Draws, unless what would be drawn is the same.
  draw(token, kind, title, ...content) {
    if (this.drawn === token) return;
    this.drawn = token;
    const focused = this.element.contains(document.activeElement) ? document.activeElement : null;
    const place = focused && { tag: focused.tagName, at: [...this.element.querySelectorAll(focused.tagName)].indexOf(focused) };
    const open = this.element.querySelector("details")?.open;
    const scroll = this.element.scrollTop;
    fill(
      this.element,
      h(
        "div",
        { class: "details-head" },
        h("p", { class: "kind" }, kind),
        h("button", { type: "button", class: "plain close", onclick: () => this.close() }, "Close"),
      ),
      h("h2", { tabindex: "-1" }, name(title)),
      content,
    );
    if (open && this.element.querySelector("details")) this.element.querySelector("details").open = true;
    this.element.scrollTop = scroll;
    if (place) this.element.querySelectorAll(place.tag)[place.at]?.focus({ preventScroll: true });
  }

  pod(key) {
    const pod = this.state.byKey.get(key);
    const now = performance.now();
    const waits = !pod || pod.state !== "bound";
    if (!this.asking && (pod !== this.lastRow || this.lastRow === undefined || (waits && !this.state.at && now - this.lastAsked > AGAIN))) {
      this.lastRow = pod ?? null;
      this.lastAsked = now;
      this.ask(key);
    }
    const [namespace, ...rest] = key.split("/");
    const title = rest.join("/");
    if (title.startsWith("resourceclaim/")) {
      this.draw("claim", "ResourceClaim", title.slice("resourceclaim/".length), h("p", null, "Its cards are allocated to a ResourceClaim of ", name(namespace), "."));
      return;
    }
    const gang = pod?.gang ? this.state.gangOf(pod) : [];
    const token = [pod, this.why, this.refused, ...gang];
    if (this.drawn && this.drawn.length === token.length && token.every((one, at) => one === this.drawn[at])) return;
    this.draw(
      token,
      "Pod",
      title,
      facts([
        ["Namespace", name(namespace)],
        ["State", pod ? h("span", { class: `chip ${chipOf(pod)}` }, stateOf(pod.state)) : "not known here"],
        ["Age", pod ? age(pod.created, this.state.now) : null],
        ["Asks for", pod ? name(pod.asks) : null],
        ["Holds", pod?.holds ? name(pod.holds) : null],
        ["Where", pod?.node ? [h("a", { href: this.url.with({ node: pod.node }) }, name(pod.node)), this.cardsOf(pod)] : null],
        ["Scheduler", pod ? name(pod.profile) : null],
        ["Priority", pod && (pod.priority || pod.labelPriority) ? `${pod.priority}${pod.labelPriority ? `, sharedgpu/priority ${pod.labelPriority}` : ""}` : null],
      ]),
      gang.length ? members(pod, gang, this.url) : null,
      this.refused ? h("p", { class: "problem" }, this.refused) : null,
      this.why ? [verdicts(this.why.why), this.placement(this.why.why), report(this.why.report)] : this.refused ? null : h("p", { class: "fine" }, "Asking why …"),
    );
  }

  async ask(key) {
    const [namespace, ...rest] = key.split("/");
    const asking = new AbortController();
    this.asking = asking;
    try {
      const found = await api.pod(namespace, rest.join("/"), asking.signal, this.state.at);
      if (this.asking !== asking) return;
      this.why = found;
      this.refused = "";
    } catch (error) {
      if (this.asking !== asking) return;
      if (!(error instanceof api.Refused)) throw error;
      this.refused = error.message;
    }
    this.asking = null;
    this.update();
  }

  cardsOf(pod) {
    if (!pod.cards.length) return null;
    const node = this.state.nodes.get(pod.node);
    const known = pod.cards.map((uuid) => [uuid, node?.cards.find((card) => card.uuid === uuid)]);
    return known.map(([uuid, card]) => [", ", h("a", { href: this.url.with({ card: uuid }) }, card ? card.label : name(uuid))]);
  }

  placement(why) {
    const found = why.placement;
    if (!found) return null;
    const others = found.others.slice(0, 5);
    return section(
      "Why there",
      found.rank
        ? h("p", null, `Placed now, its node would be number ${found.rank} of ${count(found.fitting, "node")} that fit, with a score of ${found.score}.`)
        : h("p", null, "Scores alone did not choose its node, or it would not fit there any more."),
      found.scores.length
        ? table(["Plugin", "Points", "Weight"], found.scores.map((one) => [name(one.plugin), String(one.points), String(one.weight)]))
        : null,
      others.length ? h("p", { class: "fine" }, "Next best: ", others.map((one, at) => [at ? ", " : "", name(one.name), ` (${one.score})`])) : null,
      found.neighbours.length
        ? [
            h("h4", null, "On the same cards"),
            h("ul", { class: "plain-list" }, found.neighbours.map((one) => h("li", null, one.name ? h("a", { href: this.url.with({ pod: `${one.namespace}/${one.name}` }) }, name(`${one.namespace}/${one.name}`)) : "a pod of another namespace", " ", h("span", { class: "fine" }, one.holds.map((part) => `${part.index >= 0 ? `GPU ${part.index}` : part.uuid}: ${shareOf(part.milli)}, ${memory(part.memory_bytes)}`).join("; "))))),
          ]
        : null,
    );
  }

  card(uuid) {
    const card = this.state.card(uuid);
    if (!card) {
      this.draw(`no card ${uuid}`, "Card", uuid, h("p", { class: "problem" }, "The scheduler knows no such card now."));
      return;
    }
    this.draw(
      card,
      card.isPart ? "MIG instance" : "Card",
      `${card.node.name} ${card.label}`,
      facts([
        ["State", [stateChip(card), card.note ? h("span", { class: "fine block" }, name(card.note)) : null]],
        ["Model", name(card.model)],
        ["Node", h("a", { href: this.url.with({ node: card.node.name }) }, name(card.node.name))],
        ["Share held", `${shareOf(card.used)} of ${shareOf(card.capacity)}${card.reserved ? `, ${shareOf(card.reserved)} reserved` : ""}`],
        ["Memory held", pair(card.usedMemory, card.memory)],
        ["Really busy", card.busy === null ? "not measured" : `${percent(card.busy, 1000)} % of the time`],
        ["Really in use", card.inUse === null ? "not measured" : pair(card.inUse, card.memory)],
        ["UUID", h("code", null, name(card.uuid))],
      ]),
      section(
        count(card.tenants.length, "pod"),
        card.tenants.length
          ? table(
              ["Pod", "Share", "Memory"],
              card.tenants.map(([namespace, pod, milli, bytes, exclusive, unheld]) => [
                [
                  h("i", { class: "swatch", "--colour": teamColour(namespace) }),
                  namespace ? h("a", { href: this.url.with({ pod: `${namespace}/${pod}` }) }, name(`${namespace}/${pod}`)) : h("i", null, "another namespace"),
                  exclusive ? h("span", { class: "fine block" }, "the card is for it alone") : null,
                  unheld.length ? h("span", { class: "fine block" }, `not held to its ${unheld.join(" and ")}`) : null,
                ],
                shareOf(milli),
                memory(bytes),
              ]),
            )
          : h("p", { class: "fine" }, "No pod holds a part of it."),
      ),
      card.isolation.length
        ? section("Isolation", h("ul", { class: "plain-list" }, card.isolation.map(([backend, ready, reason]) => h("li", null, name(backend), ready ? " is ready" : ready === null ? " is not known" : [" is not ready: ", name(reason)]))))
        : null,
    );
  }

  node(title) {
    const node = this.state.nodes.get(title);
    if (!node) {
      this.draw(`no node ${title}`, "Node", title, h("p", { class: "problem" }, "The scheduler knows no such node now."));
      return;
    }
    const sum = (field) => node.cards.reduce((all, card) => all + card[field], 0);
    const islands = node.islands.filter(([, places]) => places.length > 1);
    const labels = (places) => places.map((at) => node.cards[at]?.index ?? at).join(", ");
    this.draw(
      node,
      "Node",
      title,
      facts([
        ["State", h("span", { class: `chip ${node.state ? "bad" : "good"}` }, node.state || "Ready")],
        ["Share held", `${shareOf(sum("used"))} of ${shareOf(sum("capacity"))}`],
        ["Memory held", pair(sum("usedMemory"), sum("memory"))],
        ["Held back", node.native ? `${count(node.native, "card")} that the kubelet gave away` : null],
      ]),
      section(
        count(node.cards.length, "card"),
        node.cards.length
          ? table(
              ["Card", "Share", "Memory", "Busy"],
              node.cards.map((card) => [
                [h("a", { href: this.url.with({ card: card.uuid }), title: inWords(card) }, card.label), card.isReady ? null : h("span", { class: "fine block" }, card.state)],
                `${shareOf(card.used)} of ${shareOf(card.capacity)}`,
                pair(card.usedMemory, card.memory),
                card.busy === null ? "–" : `${percent(card.busy, 1000)} %`,
              ]),
            )
          : null,
      ),
      islands.length
        ? section(
            "Islands",
            h("p", { class: "fine" }, "Cards of which every two are joined by at least this bandwidth, both directions together."),
            table(["Cards", "Bandwidth", "Idle"], islands.map(([bandwidth, places, intact]) => [labels(places), bandwidth < 100 ? "near" : `${Math.round(bandwidth / 1000)} GB/s`, intact ? "all" : "not all"])),
          )
        : null,
    );
  }
}

function chipOf(pod) {
  if (pod.state === "bound") return "good";
  return pod.state === "gated" ? "bad" : "off";
}

function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== undefined).map(([title, value]) => [h("dt", null, title), h("dd", null, value)]));
}

function section(title, ...content) {
  return h("section", null, h("h3", null, title), content);
}

function table(titles, rows) {
  return h("table", null, h("thead", null, h("tr", null, titles.map((one) => h("th", { scope: "col" }, one)))), h("tbody", null, rows.map((row) => h("tr", null, row.map((cell) => h("td", null, cell))))));
}

// The pods that start together with this one, the first ones by name.
function members(pod, gang, url) {
  const shown = gang.slice(0, MEMBERS);
  return section(
    `Gang ${printable(pod.gang)}`,
    h("p", { class: "fine" }, `${count(gang.length, "pod")}, ${number(gang.filter((one) => one.node).length)} with a node`),
    table(["Pod", "Node", "State"], shown.map((one) => [one === pod ? name(one.name) : h("a", { href: url.with({ pod: one.key }) }, name(one.name)), one.node ? name(one.node) : "–", stateOf(one.state)])),
    gang.length > shown.length ? h("p", { class: "fine" }, `and ${number(gang.length - shown.length)} more`) : null,
  );
}

function report(text) {
  return h("details", null, h("summary", null, "As kubectl kubeshare why prints it"), h("pre", { tabindex: "0" }, text.split("\n").flatMap((line, at) => (at ? [h("br"), line] : [line]))));
}

// Why a pod waits, what would make it fit, whom it would evict, and what each node lacks.
export function verdicts(why) {
  const found = why.preemption;
  return [
    why.message || why.waits_for
      ? section("Why it waits", why.message ? h("p", null, why.message) : null, why.waits_for ? h("p", null, "It waits for ", name(why.waits_for), ".") : null)
      : null,
    why.advice.length ? section("What would make it fit", h("ul", null, why.advice.map((one) => h("li", null, name(one))))) : null,
    found
      ? section(
          found.in_flight ? "Evictions under way" : "Whom it would evict",
          found.obstacle ? h("p", null, name(found.obstacle)) : null,
          h("ul", null, found.victims.slice(0, 20).map((one) => h("li", null, one.name ? name(`${one.namespace}/${one.name}`) : "a pod of another namespace", " on ", name(one.node), one.answer ? `: ${one.answer}` : ""))),
          found.victims.length > 20 ? h("p", { class: "fine" }, `and ${count(found.victims.length - 20, "more pod")}`) : null,
        )
      : null,
    why.nodes.length
      ? section(
          "Node by node",
          table(
            ["Node", "What it lacks"],
            why.nodes.slice(0, 40).map((node) => [
              [name(node.name), node.alike.length ? h("span", { class: "fine block" }, `and ${count(node.alike.length, "node")} alike`) : null],
              node.fits ? "it fits" : [node.reasons.join(", "), node.shortfalls.length ? h("span", { class: "fine block" }, lacks(node, why.indexes)) : null],
            ]),
          ),
          why.nodes.length > 40 ? h("p", { class: "fine" }, `and ${count(why.nodes.length - 40, "more kind")} of nodes`) : null,
        )
      : null,
  ];
}

function lacks(node, indexes) {
  const words = node.shortfalls.slice(0, 8).map((one) => {
    const what = one.subject ? `${one.subject in indexes ? `GPU ${indexes[one.subject]}` : one.subject}: ` : "";
    if (one.asked === null || one.asked === undefined) return `${what}${one.reason}`;
    return `${what}asks ${amount(one.asked, one.unit)}, free ${amount(one.free ?? 0, one.unit)}`;
  });
  const more = node.shortfalls.length - words.length;
  return words.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

function amount(value, unit) {
  if (unit === "milli") return shareOf(value);
  return unit === "bytes" ? memory(value) : String(value);
}
