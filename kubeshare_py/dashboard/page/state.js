// The cluster as the page knows it: rows of the server as objects, with sums over them.

export const byName = new Intl.Collator("en", { numeric: true }).compare;

class Card {
  constructor(node, row) {
    this.node = node;
    [
      this.uuid, this.index, this.model, this.state, this.note, this.capacity, this.used, this.reserved,
      this.memory, this.usedMemory, this.busy, this.inUse, this.tenants, this.isolation,
    ] = row;
  }

  get isReady() {
    return this.state === "Ready";
  }

  get label() {
    return this.index >= 0 ? `GPU ${this.index}` : "GPU";
  }

  get isPart() {
    return this.uuid.startsWith("MIG-");
  }

  get free() {
    return this.isReady ? Math.max(0, this.capacity - this.used - this.reserved) : 0;
  }
}

class Node {
  constructor(row) {
    const [name, state, native, cards, islands] = row;
    this.name = name;
    this.state = state;
    this.native = native;
    this.islands = islands;
    this.cards = cards.map((card) => new Card(this, card));
  }

  // Sums over its cards, and how many there are of each model, team and state. A node of another
  // answer is another object, so that they are added up once.
  get sums() {
    if (this.summed) return this.summed;
    const sums = { ...sumOf(this.cards), models: new Map(), teams: new Map(), states: new Map() };
    for (const card of this.cards) {
      bump(sums.models, card.model);
      for (const state of card.state.split(",")) bump(sums.states, state);
      for (const [namespace] of card.tenants) if (namespace) bump(sums.teams, namespace);
    }
    this.summed = sums;
    return sums;
  }
}

class Pod {
  constructor(row) {
    [
      this.uid, this.namespace, this.name, this.state, this.node, this.priority, this.labelPriority,
      this.created, this.asks, this.holds, this.message, this.profile, this.cards, this.gang,
    ] = row;
  }

  get key() {
    return `${this.namespace}/${this.name}`;
  }
}

const EMPTY = { cards: 0, ready: 0, capacity: 0, used: 0, memory: 0, usedMemory: 0, busy: 0, measured: 0 };

export class State {
  constructor() {
    this.version = "";
    this.at = 0; // the time in the past that it is of (ms), 0 for now
    this.problem = "";
    this.nodes = new Map();
    this.pods = new Map();
    this.byKey = new Map();
    this.unplaced = new Map();
    this.sorted = [];
  }

  get isRead() {
    return this.version !== "";
  }

  // The time (ms) at which ages are counted.
  get now() {
    return this.at || Date.now();
  }

  // Takes an answer: all rows, or those that changed.
  take(answer) {
    this.version = answer.version;
    this.problem = answer.problem;
    const before = this.nodes.size;
    if (answer.whole) {
      this.nodes = new Map();
      this.pods = new Map();
      this.byKey = new Map();
      this.unplaced = new Map();
    }
    let named = answer.whole;
    for (const gone of answer.gone_nodes ?? []) named = this.nodes.delete(gone) || named;
    for (const gone of answer.gone_pods ?? []) {
      const pod = this.pods.get(gone);
      if (pod && this.byKey.get(pod.key) === pod) this.byKey.delete(pod.key);
      this.pods.delete(gone);
      this.unplaced.delete(gone);
    }
    for (const row of answer.nodes) {
      const node = new Node(row);
      named ||= !this.nodes.has(node.name);
      this.nodes.set(node.name, node);
    }
    for (const row of answer.pods) {
      const pod = new Pod(row);
      this.pods.set(pod.uid, pod);
      this.byKey.set(pod.key, pod);
      if (pod.node || pod.state === "bound") this.unplaced.delete(pod.uid);
      else this.unplaced.set(pod.uid, pod);
    }
    if (named || before !== this.nodes.size) this.order = [...this.nodes.keys()].sort(byName);
    if (named || answer.nodes.length) this.sorted = this.order.map((one) => this.nodes.get(one));
    if (answer.whole || answer.nodes.length || answer.pods.length || named || answer.gone_pods?.length) {
      this.sums = null;
      this.queue = null;
    }
  }

  // All pods of a pod's gang that the viewer may see, by name.
  gangOf(pod) {
    const found = [];
    for (const one of this.pods.values()) if (one.gang === pod.gang && one.namespace === pod.namespace) found.push(one);
    return found.sort((one, other) => byName(one.name, other.name));
  }

  card(uuid) {
    for (const node of this.sorted) for (const card of node.cards) if (card.uuid === uuid) return card;
    return null;
  }

  *cards() {
    for (const node of this.sorted) yield* node.cards;
  }

  // Sums over all cards, and the names that can be filtered by.
  totals() {
    if (this.sums) return this.sums;
    const sums = { ...EMPTY, withCards: 0, models: new Map(), teams: new Map(), states: new Map() };
    for (const { cards, sums: of } of this.sorted) {
      sums.withCards += cards.length ? 1 : 0;
      for (const key in EMPTY) sums[key] += of[key];
      for (const kind of ["models", "teams", "states"]) for (const [key, number] of of[kind]) bump(sums[kind], key, number);
    }
    this.sums = sums;
    return sums;
  }

  // Pods that wait, in the order in which they are tried; those that are not tried come last.
  waiting() {
    if (this.queue) return this.queue;
    const held = (pod) => (pod.state === "gated" ? 1 : 0);
    this.queue = [...this.unplaced.values()].sort(
      (one, other) =>
        held(one) - held(other) ||
        other.priority - one.priority ||
        other.labelPriority - one.labelPriority ||
        (one.created < other.created ? -1 : one.created > other.created ? 1 : 0) ||
        byName(one.key, other.key),
    );
    return this.queue;
  }

  // What pods hold, by "team", "pod", "model" or "node": rows with sums, the largest share first.
  usage(by) {
    const rows = new Map();
    const row = (key, extra) => {
      let found = rows.get(key);
      if (!found) rows.set(key, (found = { key, ...extra, cards: 0, share: 0, memory: 0, pods: new Set(), busy: 0, weight: 0, capacity: 0, capacityMemory: 0 }));
      return found;
    };
    for (const card of this.cards()) {
      if (by === "model" || by === "node") {
        const found = row(by === "model" ? card.model : card.node.name, {});
        found.cards += 1;
        found.capacity += card.capacity;
        found.capacityMemory += card.memory;
        found.share += card.used;
        found.memory += card.usedMemory;
        for (const [namespace, name] of card.tenants) found.pods.add(`${namespace}/${name}`);
        if (card.busy !== null) {
          found.busy += card.busy;
          found.weight += 1;
        }
        continue;
      }
      for (const [namespace, name, milli, bytes] of card.tenants) {
        const key = by === "team" ? namespace : namespace ? `${namespace}/${name}` : "";
        const found = row(key, { namespace, name });
        found.cards += 1;
        found.share += milli;
        found.memory += bytes;
        found.pods.add(`${namespace}/${name}`);
        if (card.busy !== null) {
          found.busy += card.busy;
          found.weight += 1;
        }
      }
    }
    return [...rows.values()].sort((one, other) => other.share - one.share || other.memory - one.memory || byName(one.key, other.key));
  }
}

export function sumOf(cards) {
  const sums = { ...EMPTY };
  for (const card of cards) addCard(sums, card);
  return sums;
}

function addCard(sums, card) {
  sums.cards += 1;
  sums.ready += card.isReady ? 1 : 0;
  sums.capacity += card.capacity;
  sums.used += card.used;
  sums.memory += card.memory;
  sums.usedMemory += card.usedMemory;
  if (card.busy !== null) {
    sums.busy += card.busy;
    sums.measured += 1;
  }
}

function bump(counts, key, by = 1) {
  counts.set(key, (counts.get(key) ?? 0) + by);
}
