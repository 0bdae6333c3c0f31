// What would become of pods that do not exist yet: manifests are pasted, and nothing is created.

import * as api from "./api.js";
import { fill, h, name, tell } from "./dom.js";
import { verdicts } from "./details.js";

const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: notebook
  labels:
    sharedgpu/gpu_request: "0.5"
    sharedgpu/gpu_mem: 8Gi
spec:
  schedulerName: kubeshare-scheduler
  containers:
    - name: notebook
      image: example.com/notebook
`;

export class WhatIfView {
  constructor({ url }) {
    this.url = url;
    this.text = h("textarea", { id: "manifest", rows: "16", spellcheck: "false", autocomplete: "off", wrap: "off" });
    this.namespace = h("input", { id: "namespace", value: url.get("namespace") || "default", autocomplete: "off", spellcheck: "false" });
    this.button = h("button", { type: "submit", class: "main" }, "What would happen?");
    this.answers = h("div", { class: "answers", "aria-live": "polite" });
    const form = h(
      "form",
      { class: "what-if", onsubmit: (event) => { event.preventDefault(); this.ask(); } },
      h("label", { for: "manifest" }, "Manifest"),
      this.text,
      h("div", { class: "actions" }, h("label", { class: "field" }, h("span", null, "Namespace"), this.namespace), this.button, h("button", { type: "button", class: "plain", onclick: () => { this.text.value = EXAMPLE; this.text.focus(); } }, "Use an example")),
    );
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.ask();
    });
    this.element = h(
      "div",
      { class: "view" },
      h("h1", null, "What if"),
      h("p", { class: "lead" }, "Paste the YAML of pods, Jobs, Deployments or other objects. The API server and the scheduler are asked as you what would become of each pod now. Nothing is created."),
      form,
      this.answers,
    );
  }

  end() {}

  update() {}

  async ask() {
    if (this.button.disabled) return;
    this.button.disabled = true;
    const began = this.button.textContent;
    this.button.textContent = "Asking …";
    try {
      const namespace = this.namespace.value.trim() || "default";
      this.url.set({ namespace: namespace === "default" ? "" : namespace });
      const found = await api.whatIf(namespace, this.text.value);
      fill(
        this.answers,
        found.pods.map((one) => answer(one)),
        found.pods.length ? null : h("p", { class: "empty" }, "No pods were found, and no templates of pods."),
        found.pods.length > 1 ? h("p", { class: "fine" }, "Each pod is asked about alone, as if the others were not created.") : null,
        found.skipped.length ? h("p", { class: "fine" }, `Not looked at: ${found.skipped.join(", ")}`) : null,
      );
      tell(found.pods.map((one) => `${one.object}: ${verdict(one)[1]}`).join(". "));
    } catch (error) {
      if (!(error instanceof api.Refused)) throw error;
      fill(this.answers, h("p", { class: "problem", role: "alert" }, error.message));
    } finally {
      this.button.disabled = false;
      this.button.textContent = began;
    }
  }
}

function verdict(one) {
  if (one.refused) return ["bad", "it would be refused"];
  if (!one.prospect) return ["off", "not known"];
  return one.prospect.fits ? ["good", "it would start now"] : ["off", "it would wait"];
}

function answer(one) {
  const [kind, words] = verdict(one);
  const why = one.prospect?.why;
  return h(
    "article",
    { class: "answer" },
    h("h2", null, name(one.object), " ", h("span", { class: `chip ${kind}` }, words)),
    one.refused ? h("p", { class: "problem" }, one.refused) : null,
    one.message ? h("p", null, one.message) : null,
    one.prospect?.fits && why.pod.node
      ? h("p", null, "On ", name(why.pod.node), why.pod.cards.length ? `, ${why.pod.cards.map((uuid) => (uuid in why.indexes ? `GPU ${why.indexes[uuid]}` : uuid)).join(", ")}` : "")
      : null,
    why && !one.prospect.fits ? verdicts(why) : null,
    one.notes.map((note) => h("p", { class: "fine" }, note)),
  );
}
