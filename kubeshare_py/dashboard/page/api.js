// Requests to the dashboard's server, below the page's own address: it may be behind a proxy.

const TOKEN = "kubeshare-token";
const HEADER = "Kubeshare-Token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The token stays in this tab, and is gone when the tab is closed.
export const session = {
  get token() {
    return sessionStorage.getItem(TOKEN) ?? "";
  },
  set token(value) {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  },
};

async function ask(path, { body, signal, within = 20000 } = {}) {
  const headers = session.token ? { [HEADER]: session.token } : {};
  const limit = AbortSignal.timeout(within);
  let answer;
  let read;
  try {
    answer = await fetch(`api/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body,
      cache: "no-store",
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    read = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, error.name === "TimeoutError" ? "the dashboard does not answer in time" : "the dashboard cannot be reached");
  }
  let found = {};
  try {
    found = JSON.parse(read);
  } catch {
    throw new Refused(answer.ok ? 0 : answer.status, "the answer is incomplete");
  }
  if (!answer.ok) throw new Refused(answer.status, found.message ?? `status ${answer.status}`);
  return { ...found, age: Number(answer.headers.get("Kubeshare-Age") ?? 0) };
}

const pathOf = (...names) => names.map(encodeURIComponent).join("/");
export const me = () => ask("me");
// As of a time in the past (ms), or now for 0.
export const pod = (namespace, name, signal, at = 0) => ask(`${at ? "past/" : ""}pods/${pathOf(namespace, name)}${at ? `?at=${at}` : ""}`, { signal, within: 60000 });
export const past = (signal) => ask("past", { signal, within: 60000 });
export const whatIf = (namespace, manifest) => ask(`what-if?${new URLSearchParams({ namespace })}`, { body: manifest, within: 60000 });

const PAUSES = [1000, 2000, 4000, 8000, 15000];

export const pastUsage = (from, to, by, signal) => ask(`past/usage?${new URLSearchParams({ from, to, by })}`, { signal, within: 300000 });

// The whole state of a time in the past. A long log is read on with each question; `reading` gets how far it is.
export async function pastState(at, { signal, reading }) {
  while (true) {
    const answer = await ask(`past/state?at=${at}`, { signal, within: 60000 });
    if (answer.read_to === undefined) return answer;
    reading(answer.read_to);
  }
}

// Asks for changes, one request after the other, until the signal is given.
// `taken` gets each answer, `failed` a Refused with how often it happened in a row.
export async function follow(state, { taken, failed, signal }) {
  let failures = 0;
  while (!signal.aborted) {
    await visible(signal);
    try {
      const answer = await ask(`state?${new URLSearchParams({ since: state.version })}`, { signal, within: 90000 });
      failures = 0;
      taken(answer);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      failures += 1;
      failed(error, failures);
      if (error.status === 401 || error.status === 403) return;
      await pause(PAUSES[Math.min(failures, PAUSES.length) - 1], signal);
    }
  }
}

// A tab that nobody looks at asks for nothing.
function visible(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const seen = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", seen);
      resolve();
    };
    document.addEventListener("visibilitychange", seen);
    signal.addEventListener("abort", seen, { once: true });
  });
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
