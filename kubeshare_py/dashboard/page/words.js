// Amounts, ages and states in words. Shares come as thousandths of a card, memory as bytes.

const GIB = 2 ** 30;
const MIB = 2 ** 20;
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (number, thing) => `${whole.format(number)} ${thing}${number === 1 ? "" : "s"}`;
export const number = (value) => whole.format(value);
export const cards = (milli) => short.format(milli / 1000);
export const percent = (part, all) => (all > 0 ? Math.round((part * 100) / all) : 0);

export function memory(bytes) {
  if (Math.abs(bytes) >= 1024 * GIB) return `${tenth.format(bytes / GIB / 1024)} TiB`;
  return Math.abs(bytes) >= GIB || !bytes ? `${tenth.format(bytes / GIB)} GiB` : `${whole.format(Math.round(bytes / MIB))} MiB`;
}

export function pair(part, all) {
  const unit = all >= 1024 * GIB ? 1024 * GIB : GIB;
  return `${tenth.format(part / unit)} of ${tenth.format(all / unit)} ${unit === GIB ? "GiB" : "TiB"}`;
}

// "3 min", "2 h 5 min", "4 d": since a time of the Kubernetes API.
export function age(created, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - Date.parse(created)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 7 ? `${days} d ${hours % 24} h` : `${days} d`;
}

// "A100-SXM4-40GB" for "NVIDIA-A100-SXM4-40GB": the vendor is the same for all.
export const model = (name) => name.replace(/^(NVIDIA[- ]|Tesla[- ])(GeForce[- ])?/, "") || "unknown model";

const STATES = {
  waiting: "waits in the queue",
  backoff: "is tried again after a pause",
  gated: "is not tried",
  delegated: "waits with kube-scheduler",
  prebinding: "has cards, and waits for its node",
  assumed: "is being bound",
  unconfirmed: "is being bound",
  bound: "runs, or starts",
  new: "has just been seen",
};
export const stateOf = (state) => STATES[state] ?? state;

// A colour of its own for each team: one of 24, by its name.
export function teamColour(namespace) {
  if (!namespace) return "var(--unnamed)";
  let hash = 2166136261;
  for (let at = 0; at < namespace.length; at += 1) hash = Math.imul(hash ^ namespace.charCodeAt(at), 16777619);
  hash ^= hash >>> 15;
  return `var(--team-${(hash >>> 0) % 24})`;
}
