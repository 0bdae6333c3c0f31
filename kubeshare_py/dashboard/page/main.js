// The page: its address, its views, signing in, and the state that they show.

import * as api from "./api.js";
import { CardsView } from "./cards.js";
import { Details } from "./details.js";
import { atNextFrame, byId, fill, h, tell } from "./dom.js";
import { PastBar, moment } from "./past.js";
import { QueueView } from "./queue.js";
import { State } from "./state.js";
import { UsageView } from "./usage.js";
import { WhatIfView } from "./what-if.js";
import { number } from "./words.js";

const VIEWS = { cards: CardsView, queue: QueueView, usage: UsageView, "what-if": WhatIfView };
const TITLES = { cards: "Cards", queue: "Queue", usage: "Usage", "what-if": "What if" };
const FILTERS = ["q", "model", "team", "state", "free"];
const THEMES = ["auto", "light", "dark"];

// What is shown, in the part of the address that browsers send to no server.
class Url {
  constructor(changed) {
    this.changed = changed;
    addEventListener("hashchange", () => this.read());
    this.read();
  }

  read() {
    const [, path, query] = /^#\/([a-z-]*)\??(.*)$/.exec(location.hash) ?? [];
    this.view = VIEWS[path] ? path : "cards";
    this.parameters = new URLSearchParams(query ?? "");
    this.changed();
  }

  get(key) {
    return this.parameters.get(key) ?? "";
  }

  get isFiltered() {
    return FILTERS.some((key) => this.get(key));
  }

  // The address with these parameters; "" takes one away.
  with(given, view = this.view) {
    const parameters = new URLSearchParams(this.parameters);
    for (const [key, value] of Object.entries(given)) {
      if (value) parameters.set(key, value);
      else parameters.delete(key);
    }
    const kinds = ["pod", "card", "node"];
    const opened = kinds.find((key) => given[key]);
    if (opened) for (const kind of kinds) if (kind !== opened) parameters.delete(kind);
    const query = parameters.toString();
    return `#/${view}${query ? `?${query}` : ""}`;
  }

  // Filters replace the address, so that "back" does not lead through every letter.
  set(given) {
    history.replaceState(null, "", this.with(given));
    this.read();
  }

  open(given) {
    const next = this.with(given);
    if (next === location.hash) return;
    history.pushState(null, "", next);
    this.read();
  }
}

class Page {
  constructor() {
    this.state = new State();
    this.main = byId("main");
    this.render = atNextFrame(() => this.draw());
    takeToken();
    this.url = new Url(() => this.render());
    this.past = new PastBar({ url: this.url });
    this.at = 0;
    addEventListener("popstate", () => this.url.read());
    this.details = new Details({ state: this.state, url: this.url, element: byId("details") });
    byId("skip").addEventListener("click", () => this.main.focus());
    byId("sign-out").addEventListener("click", () => this.signOut(""));
    byId("theme").addEventListener("click", () => nextTheme());
    addEventListener("keydown", (event) => this.shortcut(event));
    setInterval(() => this.showAge(), 1000);
    this.start();
  }

  async start() {
    this.following?.abort();
    const following = new AbortController();
    this.following = following;
    this.signingIn = false;
    const wasRead = this.state.isRead;
    if (!wasRead) this.wait("Reading the cluster …");
    try {
      const me = await api.me();
      byId("sign-out").hidden = !api.session.token;
      byId("sign-out").title = `Signed in as ${me.user}`;
      this.past.isThere = me.has_past;
    } catch (error) {
      if (!(error instanceof api.Refused)) throw error;
      if (error.status === 401 || error.status === 403) {
        this.signIn(error.status === 401 && !api.session.token ? "" : error.message);
        return;
      }
    }
    this.at = this.past.at;
    this.past.update(this.at);
    if (this.at) {
      await this.lookBack(this.at, following.signal);
      return;
    }
    // The answer to "what is newer" may take a while, and what is shown may be the present already.
    if (this.state.isRead && !this.state.at) this.live("good");
    else this.live("waits", "Reading");
    await api.follow(this.state, {
      signal: following.signal,
      taken: (answer) => this.taken(answer),
      failed: (error, times) => this.failed(error, times),
    });
  }

  // Shows the cluster of a time in the past; what was shown stays until that is there.
  async lookBack(at, signal) {
    this.live("waits", "Reading");
    this.past.reading(0);
    try {
      await this.past.read(signal);
      const answer = await api.pastState(at, { signal, reading: (to) => this.past.reading(to) });
      Object.assign(this.state, new State());
      this.state.take(answer);
      this.state.at = at;
      this.past.taken(answer.past, at);
      this.warn("");
      this.live("past", `As of ${moment(at)}`);
      tell(`As of ${moment(at)}`);
      this.render();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof api.Refused)) throw error;
      if (error.status === 401 || error.status === 403) this.signOut(error.message);
      else {
        this.past.failed(sentence(error.message));
        this.live("broken", "Not read");
      }
    }
  }

  // The address names another time than that which is shown.
  turn() {
    if (this.signingIn || this.past.at === this.at) return;
    this.at = this.past.at;
    this.start();
  }

  taken(answer) {
    this.readAt = Date.now() - answer.age * 1000;
    this.state.take(answer);
    this.state.at = 0;
    this.warn(this.state.problem ? `The state is not new: ${this.state.problem}` : "");
    this.live(this.state.problem ? "broken" : "good");
    this.render();
  }

  failed(error, times) {
    if (error.status === 401 || error.status === 403) {
      this.signOut(error.message);
      return;
    }
    // The past is not to be taken for the present.
    if (this.state.at) Object.assign(this.state, new State());
    this.live("broken", "Not connected");
    if (times > 1 || !this.state.isRead) this.warn(`${sentence(error.message)} The page tries again.`);
    if (!this.state.isRead) this.wait("The cluster has not been read yet.");
  }

  // What is known of the cluster goes with the viewer who might see it.
  signOut(message) {
    this.following?.abort();
    api.session.token = "";
    Object.assign(this.state, new State());
    this.past.clear();
    byId("sign-out").hidden = true;
    this.url.open({ pod: "", card: "", node: "" });
    this.details.update();
    this.signIn(message);
  }

  signIn(message) {
    this.signingIn = true;
    this.end();
    this.warn("");
    this.live("waits", "Not signed in");
    const token = h("input", { id: "token", type: "password", autocomplete: "off", required: true, "aria-describedby": "token-help" });
    fill(
      this.main,
      h(
        "form",
        {
          class: "sign-in",
          onsubmit: (event) => {
            event.preventDefault();
            api.session.token = token.value.trim();
            this.start();
          },
        },
        h("h1", null, "Sign in"),
        message ? h("p", { class: "problem", role: "alert" }, sentence(message)) : null,
        h("label", { for: "token" }, "Token of the cluster"),
        token,
        h("p", { class: "fine", id: "token-help" }, "For example what ", h("code", null, "kubectl create token NAME"), " prints. You see what this token may see: cards, and pods of your namespaces. It stays in this tab until you close it."),
        h("button", { type: "submit", class: "main" }, "Sign in"),
      ),
    );
    token.focus();
  }

  end() {
    this.view?.end();
    this.view = null;
    this.viewName = null;
  }

  wait(words) {
    this.end();
    fill(this.main, h("p", { class: "empty" }, words));
  }

  draw() {
    this.turn();
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.view === this.url.view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${TITLES[this.url.view]} – kubeshare`;
    if (this.signingIn || !this.state.isRead) return;
    if (this.viewName !== this.url.view) {
      const isFirst = !this.viewName;
      this.end();
      this.viewName = this.url.view;
      this.view = new VIEWS[this.viewName]({ state: this.state, url: this.url, past: this.past });
      fill(this.main, this.view.element);
      if (!isFirst) {
        scrollTo(0, 0);
        tell(TITLES[this.viewName]);
      }
    }
    this.view.update();
    this.details.update();
    const waiting = this.state.waiting().length;
    byId("queue-count").hidden = !waiting;
    byId("queue-count").textContent = number(waiting);
    this.showAge();
  }

  warn(words) {
    const alerts = byId("alerts");
    if (alerts.textContent !== words) fill(alerts, words ? h("p", { class: "problem" }, words) : null);
  }

  live(kind, words = null) {
    byId("live").dataset.kind = kind;
    this.liveWords = words;
    this.showAge();
  }

  showAge() {
    if (this.liveWords !== null || !this.readAt) {
      byId("live-text").textContent = this.liveWords ?? "";
      return;
    }
    // An answer comes at the latest after 25 s; the state may be older in a very large cluster.
    const seconds = Math.max(0, Math.round((Date.now() - this.readAt) / 1000));
    const words = seconds < 45 ? "Live" : seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
    if (byId("live-text").textContent !== words) byId("live-text").textContent = words;
  }

  shortcut(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key === "/") {
      const search = byId("filter-q");
      if (search) {
        event.preventDefault();
        search.focus();
      }
    } else if (event.key === "Escape") this.details.close();
  }
}

// A token in the address, as the demo prints it, is taken out of it before anything else happens.
function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  api.session.token = decodeURIComponent(found[1]);
  history.replaceState(null, "", location.pathname + location.search);
}

function sentence(words) {
  const text = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "auto";
  useTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
  localStorage.setItem("kubeshare-theme", theme);
}

useTheme(THEMES.includes(localStorage.getItem("kubeshare-theme")) ? localStorage.getItem("kubeshare-theme") : "auto");
new Page();
