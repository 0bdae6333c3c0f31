// All cards as bars, node by node; grouped, filtered, and as a table.

import { atNextFrame, fill, h, name, tell } from "./dom.js";
import { LongList, LongTable } from "./lists.js";
import { byName, sumOf } from "./state.js";
import { cards as shareOf, count, model, number, pair, percent, teamColour } from "./words.js";

const TILE = 3.6; // rem: a tile's height, the gap between tiles, a node's head beside or above them
const GAP = 0.375;
const HEAD = 12;
const LEAST = 5.6; // the least width of a tile
const GROUPS = { node: "node", model: "model", team: "team", state: "state" };

export class CardsView {
  constructor({ state, url }) {
    this.state = state;
    this.url = url;
    this.current = null;
    this.element = h("div", { class: "view" });
    this.summary = h("dl", { class: "summary" });
    this.filters = new Filters(url);
    this.found = h("p", { class: "found" });
    this.body = h("div", { class: "body" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.element.append(h("h1", { class: "hidden" }, "Cards"), this.summary, this.filters.element, this.found, this.body, this.empty);
    this.resized = atNextFrame(() => this.place());
    this.watch = new ResizeObserver(this.resized);
    this.watch.observe(this.body);
  }

  end() {
    this.watch.disconnect();
    this.list?.end();
  }

  update() {
    const totals = this.state.totals();
    fill(this.summary, summary(this.state, totals));
    this.filters.update(totals);
    this.asTable = this.url.get("as") === "table";
    if (!this.list || this.list.asTable !== this.asTable) this.begin();
    const groups = this.groups();
    const cardsIn = groups.reduce((sum, [, nodes]) => sum + nodes.reduce((all, [, cards]) => all + cards.length, 0), 0);
    this.found.textContent = this.url.isFiltered ? `${count(cardsIn, "card")} of ${number(totals.cards)} match` : "";
    this.empty.hidden = cardsIn > 0;
    this.empty.textContent = totals.cards ? "No card matches these filters." : "The scheduler knows of no cards yet.";
    if (this.asTable) {
      this.list.set(groups.flatMap(([, nodes]) => nodes.flatMap(([, cards]) => cards)));
      return;
    }
    this.items = [];
    for (const [title, nodes] of groups) {
      if (title !== null) this.items.push({ key: `group ${title}`, title, nodes, sums: sumOf(nodes.flatMap(([, cards]) => cards)) });
      for (const [node, cards] of nodes) this.items.push({ key: `${title ?? ""} ${node.name}`, node, cards });
    }
    this.place();
  }

  begin() {
    this.list?.end();
    this.list = this.asTable ? this.table() : this.bars();
    this.list.asTable = this.asTable;
    fill(this.body, this.asTable ? null : legend(), this.list.element);
  }

  bars() {
    const list = new LongList({
      heights: () => (item) => this.heightOf(item),
      keyOf: (item) => item.key,
      isSame: (one, other) => isSameItem(one, other) && one.wide === other.wide,
      draw: (item) => (item.node ? this.drawNode(item) : drawGroup(item)),
      attributes: { role: "list", "aria-label": "Nodes with their cards" },
    });
    list.element.addEventListener("keydown", (event) => this.move(event));
    list.element.addEventListener("focusin", (event) => {
      const tile = event.target.closest(".tile");
      if (tile) this.use(tile);
    });
    return list;
  }

  table() {
    return new LongTable({
      label: "Cards",
      keyOf: (card) => `${card.node.name} ${card.uuid}`,
      isSame: (one, other) => one === other,
      rowHeight: () => (innerWidth < 45 * rem() ? 8.5 : 2.4) * rem(),
      open: (card) => this.url.open({ card: card.uuid }),
      columns: [
        { title: "Card", class: "wide", of: (card) => [h("a", { href: this.url.with({ card: card.uuid }), "data-focus": "card" }, name(`${card.node.name} ${card.label}`))] },
        { title: "Model", class: "wide", of: (card) => name(model(card.model)) },
        { title: "Share held", class: "number", of: (card) => `${shareOf(card.used)} of ${shareOf(card.capacity)}` },
        { title: "Memory held", class: "number", of: (card) => pair(card.usedMemory, card.memory) },
        { title: "Really busy", class: "number", of: (card) => (card.busy === null ? "–" : `${percent(card.busy, 1000)} %`) },
        { title: "State", of: (card) => stateChip(card) },
        { title: "Pods", class: "widest", of: (card) => tenantNames(card) },
      ],
    });
  }

  // Columns of tiles for the width there is; then all heights are known.
  place() {
    if (!this.list || this.asTable || !this.items || !this.body.isConnected) return;
    this.rem = rem();
    const width = this.body.clientWidth / this.rem;
    this.wide = width >= 44;
    const room = width - (this.wide ? HEAD + 1 : 0) - 1.5;
    const most = this.items.reduce((largest, item) => Math.max(largest, item.cards?.length ?? 0), 1);
    this.columns = Math.max(1, Math.min(most, Math.floor((room + GAP) / (LEAST + GAP))));
    this.list.element.style.setProperty("--columns", this.columns);
    this.list.element.classList.toggle("narrow", !this.wide);
    for (const item of this.items) item.wide = this.wide;
    this.list.set(this.items);
    this.mark();
  }

  heightOf(item) {
    if (!item.node) return 2.75 * this.rem;
    const rows = Math.ceil(item.cards.length / this.columns);
    const tiles = rows * (TILE + GAP) - GAP;
    const about = item.node.state ? 4.6 : 3.5;
    return (this.wide ? Math.max(tiles, about) + 1 : tiles + 3.5) * this.rem;
  }

  drawNode({ node, cards, key }) {
    const sums = sumOf(cards);
    const models = [...new Set(cards.map((card) => model(card.model)))];
    return h(
      "div",
      { role: "listitem", class: `node${node.state ? " troubled" : ""}` },
      h(
        "div",
        { class: "about" },
        h("a", { class: "title", href: this.url.with({ node: node.name }), "data-focus": "node" }, name(node.name)),
        h("p", { class: "fine" }, name(models.slice(0, 2).join(", ") + (models.length > 2 ? ` and ${models.length - 2} more` : ""))),
        h("p", { class: "fine" }, `${shareOf(sums.used)} of ${shareOf(sums.capacity)} held`),
        node.state ? h("p", { class: "warning" }, node.state) : null,
      ),
      h("div", { class: "tiles", role: "group", "aria-label": `Cards of ${node.name}` }, cards.map((card) => this.drawTile(card, key))),
    );
  }

  drawTile(card, key) {
    const tile = h(
      "button",
      {
        type: "button",
        class: `tile${card.isReady ? "" : " closed"}`,
        tabindex: this.current === `${key} ${card.uuid}` ? "0" : "-1",
        "aria-label": inWords(card),
        "data-focus": card.uuid,
        "data-place": `${key} ${card.uuid}`,
        onclick: () => this.url.open({ card: card.uuid }),
      },
      h(
        "span",
        { class: "line" },
        h("span", { class: "label" }, card.label, card.isPart ? [" ", h("span", { class: "part" }, "MIG")] : null),
        " ",
        card.isReady ? h("span", { class: "amount" }, shareOf(card.used)) : h("span", { class: "trouble" }, shortState(card)),
      ),
      h("span", { class: "bar share", "--fill": bar(card, 2, card.capacity), "--busy": card.busy === null ? "0%" : `${card.busy / 10}%` }),
      h("span", { class: "bar memory", "--fill": bar(card, 3, card.memory), "--busy": card.inUse === null || !card.memory ? "0%" : `${(card.inUse * 100) / card.memory}%` }),
    );
    return tile;
  }

  // One tile at a time can be reached by Tab; arrows lead to the others.
  mark() {
    const all = [...this.list.element.querySelectorAll(".tile")];
    if (!all.length) return;
    const one = all.find((tile) => tile.dataset.place === this.current) ?? all[0];
    for (const tile of this.list.element.querySelectorAll('.tile[tabindex="0"]')) tile.tabIndex = -1;
    one.tabIndex = 0;
  }

  use(tile) {
    this.current = tile.dataset.place;
    this.mark();
  }

  move(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.items.findIndex((item) => item.node && tile.dataset.place === `${item.key} ${tile.dataset.focus}`);
    if (at < 0) return;
    const place = [at, this.items[at].cards.findIndex((card) => card.uuid === tile.dataset.focus)];
    const next = this.next(place, event.key);
    if (!next) return;
    event.preventDefault();
    const item = this.items[next[0]];
    this.current = `${item.key} ${item.cards[next[1]].uuid}`;
    this.list.reveal(next[0]);
    this.mark();
    this.list.element.querySelector(`[data-place="${CSS.escape(this.current)}"]`)?.focus({ preventScroll: true });
  }

  // The place of the card that a key leads to: [number of the item, number of the card].
  next([at, card], key) {
    const cardsAt = (number) => this.items[number].cards.length;
    const towards = (step, from) => {
      let number = from + step;
      while (this.items[number] && !this.items[number].node) number += step;
      return this.items[number] ? number : null;
    };
    const column = card % this.columns;
    if (key === "ArrowRight") {
      if (card + 1 < cardsAt(at)) return [at, card + 1];
      const after = towards(1, at);
      return after === null ? null : [after, 0];
    }
    if (key === "ArrowLeft") {
      if (card) return [at, card - 1];
      const before = towards(-1, at);
      return before === null ? null : [before, cardsAt(before) - 1];
    }
    if (key === "ArrowDown") {
      if (card + this.columns < cardsAt(at)) return [at, card + this.columns];
      const after = towards(1, at);
      return after === null ? null : [after, Math.min(column, cardsAt(after) - 1)];
    }
    if (key === "ArrowUp") {
      if (card >= this.columns) return [at, card - this.columns];
      const before = towards(-1, at);
      if (before === null) return null;
      const last = Math.floor((cardsAt(before) - 1) / this.columns) * this.columns;
      return [before, Math.min(last + column, cardsAt(before) - 1)];
    }
    if (key === "Home") return [towards(1, -1), 0];
    if (key === "End") {
      const last = towards(-1, this.items.length);
      return [last, cardsAt(last) - 1];
    }
    return null;
  }

  // [title or null, [[node, cards], ...]] for each group, with what the filters leave.
  groups() {
    if (!this.url.isFiltered && (GROUPS[this.url.get("group")] ?? "node") === "node") {
      const all = this.state.sorted.filter((node) => node.cards.length).map((node) => [node, node.cards]);
      return all.length ? [[null, all]] : [];
    }
    const matches = matcher(this.url);
    const by = GROUPS[this.url.get("group")] ?? "node";
    const groups = new Map();
    const put = (title, node, card) => {
      let nodes = groups.get(title);
      if (!nodes) groups.set(title, (nodes = new Map()));
      const known = nodes.get(node);
      if (known) known.push(card);
      else nodes.set(node, [card]);
    };
    for (const node of this.state.sorted) {
      for (const card of node.cards) {
        if (!matches(card)) continue;
        if (by === "node") put(null, node, card);
        else if (by === "model") put(model(card.model), node, card);
        else if (by === "state") put(card.state, node, card);
        else {
          const teams = new Set(card.tenants.map(([namespace]) => namespace));
          for (const team of teams) put(team || "other namespaces", node, card);
          if (!teams.size) put("no team", node, card);
        }
      }
    }
    const titles = [...groups.keys()].sort((one, other) => byName(one ?? "", other ?? ""));
    return titles.map((title) => [title, [...groups.get(title)]]);
  }
}

// Whether a card passes the filters of the address.
function matcher(url) {
  const wanted = Object.fromEntries(["q", "model", "state", "team"].map((key) => [key, url.get(key)]));
  const sought = wanted.q.trim().toLowerCase();
  const onlyFree = url.get("free") === "1";
  return (card) =>
    (!wanted.model || card.model === wanted.model) &&
    (!wanted.state || card.state.split(",").includes(wanted.state)) &&
    (!wanted.team || card.tenants.some(([namespace]) => namespace === wanted.team)) &&
    (!onlyFree || card.free > 0) &&
    (!sought || hasText(card, sought));
}

function hasText(card, sought) {
  return (
    card.node.name.toLowerCase().includes(sought) ||
    card.model.toLowerCase().includes(sought) ||
    card.uuid.toLowerCase().includes(sought) ||
    card.tenants.some(([namespace, pod]) => `${namespace}/${pod}`.includes(sought))
  );
}

class Filters {
  constructor(url) {
    this.url = url;
    this.selects = {
      model: h("select", { id: "filter-model" }),
      team: h("select", { id: "filter-team" }),
      state: h("select", { id: "filter-state" }),
      group: h("select", { id: "filter-group" }, Object.keys(GROUPS).map((one) => h("option", { value: one === "node" ? "" : one }, one))),
    };
    for (const [key, select] of Object.entries(this.selects)) select.addEventListener("change", () => url.set({ [key]: select.value }));
    this.search = h("input", { type: "search", id: "filter-q", placeholder: "node, pod or card", spellcheck: "false", autocomplete: "off" });
    this.search.addEventListener("input", () => url.set({ q: this.search.value }));
    this.free = h("input", { type: "checkbox", id: "filter-free" });
    this.free.addEventListener("change", () => url.set({ free: this.free.checked ? "1" : "" }));
    this.views = ["bars", "table"].map((one) =>
      h("button", { type: "button", onclick: () => { url.set({ as: one === "bars" ? "" : one }); tell(`Cards as ${one}`); } }, one === "bars" ? "Bars" : "Table"),
    );
    this.clear = h("button", { type: "button", class: "plain", onclick: () => url.set({ q: "", model: "", team: "", state: "", free: "" }) }, "Clear");
    const field = (label, control) => h("label", { class: "field" }, h("span", null, label), control);
    this.element = h(
      "form",
      { class: "filters", role: "search", "aria-label": "Filter the cards", onsubmit: (event) => event.preventDefault() },
      field("Find", this.search),
      field("Model", this.selects.model),
      field("Team", this.selects.team),
      field("State", this.selects.state),
      field("Group by", this.selects.group),
      h("label", { class: "check" }, this.free, h("span", null, "free only")),
      h("span", { class: "choice", role: "group", "aria-label": "Show as" }, this.views),
      this.clear,
    );
  }

  update(totals) {
    options(this.selects.model, "all models", totals.models, this.url.get("model"), model);
    options(this.selects.team, "all teams", totals.teams, this.url.get("team"));
    options(this.selects.state, "all states", totals.states, this.url.get("state"));
    this.selects.group.value = this.url.get("group");
    if (this.search.value !== this.url.get("q")) this.search.value = this.url.get("q");
    this.free.checked = this.url.get("free") === "1";
    const asTable = this.url.get("as") === "table";
    this.views[0].setAttribute("aria-pressed", String(!asTable));
    this.views[1].setAttribute("aria-pressed", String(asTable));
    this.clear.hidden = !this.url.isFiltered;
  }
}

// The options of a select, left alone while they are the same: it may be open.
function options(select, all, counts, chosen, shown = (one) => one) {
  const names = [...counts.keys()].sort(byName);
  if (chosen && !counts.has(chosen)) names.push(chosen);
  const told = JSON.stringify(names);
  if (select.dataset.names !== told) {
    select.dataset.names = told;
    fill(select, h("option", { value: "" }, all), names.map((one) => h("option", { value: one }, shown(one))));
  }
  select.value = chosen;
}

function summary(state, totals) {
  const busy = totals.measured ? totals.busy / totals.measured : null;
  const waiting = state.waiting().length;
  const figure = (title, value, more, part, kind = "") =>
    h(
      "div",
      { class: `figure ${kind}` },
      h("dt", null, title),
      h("dd", null, h("span", { class: "value" }, value), " ", h("span", { class: "fine" }, more), part === null ? null : h("span", { class: "meter", "--part": `${part}%` })),
    );
  return [
    figure("Cards", number(totals.cards), `on ${count(totals.withCards, "node")}${totals.ready < totals.cards ? `, ${number(totals.cards - totals.ready)} not ready` : ""}`, totals.cards ? percent(totals.ready, totals.cards) : 0, totals.ready < totals.cards ? "off" : ""),
    figure("Share held", `${percent(totals.used, totals.capacity)} %`, `${shareOf(totals.used)} of ${shareOf(totals.capacity)} cards`, percent(totals.used, totals.capacity)),
    figure("Memory held", `${percent(totals.usedMemory, totals.memory)} %`, pair(totals.usedMemory, totals.memory), percent(totals.usedMemory, totals.memory)),
    figure("Really busy", busy === null ? "–" : `${percent(busy, 1000)} %`, totals.measured ? `measured on ${count(totals.measured, "card")}` : "not measured", busy === null ? 0 : percent(busy, 1000)),
    figure("Pods waiting", number(waiting), waiting ? "see the queue" : "none", null, waiting ? "off" : ""),
  ];
}

function legend() {
  return h(
    "p",
    { class: "legend" },
    h("span", null, h("i", { class: "swatch share" }), "share held, one colour for each team"),
    h("span", null, h("i", { class: "swatch memory" }), "memory held"),
    h("span", null, h("i", { class: "swatch busy" }), "really used"),
    h("span", null, h("i", { class: "swatch reserved" }), "reserved"),
  );
}

function drawGroup({ title, nodes, sums }) {
  return h(
    "div",
    { role: "listitem", class: "group" },
    h("h2", null, name(title)),
    h("p", { class: "fine" }, `${count(sums.cards, "card")} on ${count(nodes.length, "node")}, ${shareOf(sums.used)} of ${shareOf(sums.capacity)} held, ${pair(sums.usedMemory, sums.memory)}`),
  );
}

function isSameItem(one, other) {
  if (!one.node || !other.node) return false;
  if (one.node !== other.node || one.cards.length !== other.cards.length) return false;
  return one.cards.every((card, at) => card === other.cards[at]);
}

// The parts of a card by team as a gradient; a hair of space between two.
function bar(card, field, all) {
  if (!all) return "none";
  const stops = [];
  let at = 0;
  for (const tenant of card.tenants) {
    const end = Math.min(100, at + (tenant[field] * 100) / all);
    const colour = teamColour(tenant[0]);
    const hair = Math.min(0.8, (end - at) / 4);
    stops.push(`${colour} ${at}% ${end - hair}%`, `var(--rail) ${end - hair}% ${end}%`);
    at = end;
  }
  if (field === 2 && card.reserved) {
    const end = Math.min(100, at + (card.reserved * 100) / all);
    stops.push(`var(--reserved) ${at}% ${end}%`);
    at = end;
  }
  stops.push(`var(--rail) ${at}% 100%`);
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

// In words, beginning with what the tile shows: who speaks to the page says what is seen.
export function inWords(card) {
  const pods = card.tenants.map(([namespace, pod, milli]) => `${namespace ? `${namespace}/${pod}` : "a pod of another namespace"} ${shareOf(milli)}`);
  return [
    `${card.label}${card.isPart ? " MIG" : ""} ${card.isReady ? `${shareOf(card.used)} of ${shareOf(card.capacity)} held` : shortState(card)} on ${card.node.name}`,
    model(card.model),
    card.isReady ? null : `${card.state}, ${shareOf(card.used)} of ${shareOf(card.capacity)} held`,
    `memory ${pair(card.usedMemory, card.memory)}`,
    card.busy === null ? null : `busy ${percent(card.busy, 1000)} percent`,
    pods.length ? `pods: ${pods.slice(0, 5).join(", ")}${pods.length > 5 ? ` and ${pods.length - 5} more` : ""}` : "no pods",
  ].filter(Boolean).join("; ");
}

const SHORT = { Unknown: "unknown", Unhealthy: "unhealthy", ClaimedTwice: "disputed", Cordoned: "cordoned", NotReady: "not ready", SchedulingDisabled: "closed", Silent: "silent" };
const shortState = (card) => SHORT[card.state.split(",")[0]] ?? card.state;

export function stateChip(card) {
  return h("span", { class: `chip ${card.isReady ? "good" : "bad"}` }, card.isReady ? "Ready" : card.state.split(",").join(", "));
}

function tenantNames(card) {
  return card.tenants.map(([namespace, pod], at) => [
    at ? ", " : null,
    namespace ? name(`${namespace}/${pod}`) : h("i", null, "another namespace"),
  ]);
}

export function rem() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize);
}
