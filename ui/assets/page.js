// What a click or key does on the page itself: actions to the panel, copying, theme, language, tabs.
"use strict";
(() => {
  const volta = window.volta;
  const cookie = (name) => document.cookie.split("; ").find((part) => part.startsWith(name + "="))?.slice(name.length + 1);
  const remember = (name, value) => { document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=strict`; };

  // The theme is a matter of this browser alone: dark where the system is, until a person chooses.
  const dark = () => (cookie("volta_theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const showTheme = () => { document.body.classList.toggle("dark", dark()); document.documentElement.style.colorScheme = dark() ? "dark" : "light"; };

  function toast(text, kind) {
    let box = document.getElementById("vp-toasts");
    if (!box) {
      box = document.createElement("div");
      box.id = "vp-toasts";
      box.setAttribute("role", "status");
      box.popover = "manual"; // above an open dialog too
      document.body.append(box);
    }
    const note = document.createElement("div");
    note.className = `vp-toast is-${kind}`;
    note.textContent = text;
    box.append(note);
    if (box.matches(":popover-open")) box.hidePopover();
    box.showPopover();
    while (box.childElementCount > 4) box.firstElementChild.remove();
    setTimeout(() => { note.remove(); if (!box.childElementCount) box.hidePopover(); }, kind === "error" ? 12000 : 2500);
  }

  async function copy(button) {
    const source = button.closest("[data-copy-from]").querySelector("pre");
    try {
      await navigator.clipboard.writeText(source.textContent);
      toast(volta.word("copied"), "info");
    } catch {
      toast(volta.word("copy_failed"), "error");
    }
  }
  const messageBox = () => document.querySelector("#vp-message textarea");
  function setMessage(text) { // Gradio's box keeps a value of its own, which follows the input event
    const box = messageBox();
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }
  let pending = null; // the message that was sent and is not yet taken or refused
  function sendMessage() {
    const text = messageBox().value;
    if (!text.trim() || pending !== null || document.body.classList.contains("vp-answering")) return;
    if (volta.send({ do: "chat.send", text })) pending = text;
    else toast(volta.word("bar.reconnecting"), "error");
  }
  function messageTaken() {
    if (messageBox().value === pending) setMessage("");
    pending = null;
  }
  const showTab = (name) => document.getElementById(`vp-tab-${name}-button`)?.click();

  const local = {
    copy,
    theme: () => { remember("volta_theme", dark() ? "light" : "dark"); showTheme(); },
    tab: (button) => showTab(button.dataset.tab),
    "form.set": () => {}, // dialogs.js sees to it
    language: (button) => { // the panel re-renders its fragments, a Gradio event the labels of its components
      remember("volta_language", button.dataset.language);
      volta.send({ language: button.dataset.language });
      volta.relabel?.();
    },
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("#vp-send")) return void sendMessage();
    if (event.target.closest("#vp-stop")) return void volta.send({ do: "chat.stop" });
    const button = event.target.closest("[data-do]");
    if (!button) return;
    const action = button.dataset.do;
    if (local[action]) return void local[action](button);
    if (button.dataset.confirm) return void volta.confirm(button);
    if (!volta.send({ ...button.dataset })) toast(volta.word("bar.reconnecting"), "error");
    if (button.dataset.tab) showTab(button.dataset.tab);
  });
  document.addEventListener("change", (event) => {
    const { change, ...data } = event.target.dataset ?? {};
    if (!change) return;
    const value = event.target.type === "checkbox" ? event.target.checked : event.target.value;
    if (!volta.send({ ...data, do: change, value })) toast(volta.word("bar.reconnecting"), "error");
  });
  // The search of a shelf hides what does not match; cards that arrive later are asked too.
  function search(box) {
    const wanted = box.value.trim().toLowerCase().split(/\s+/);
    const list = document.querySelector(`[data-list="${box.dataset.search}"]`);
    for (const child of list.children) {
      const words = child.querySelector("[data-words]")?.dataset.words ?? "";
      child.hidden = !wanted.every((word) => words.includes(word));
    }
    list.dataset.empty = [...list.children].some((child) => !child.hidden) ? "" : volta.word("preset.nothing_matches");
  }
  document.addEventListener("input", (event) => { if (event.target.dataset?.search) search(event.target); });
  volta.afterList = (name) => { const box = document.querySelector(`[data-search="${name}"]`); if (box?.value) search(box); };
  document.addEventListener("keydown", (event) => {
    // A key that an input method takes (Chinese, Japanese) must neither send the half-written message nor stop an answer.
    const composing = event.isComposing || event.keyCode === 229;
    const answering = document.body.classList.contains("vp-answering");
    if (event.key === "Escape" && answering && !composing && !event.target.closest("select, dialog")) volta.send({ do: "chat.stop" });
    if (event.key !== "Enter" || event.target !== messageBox() || event.shiftKey) return;
    event.stopPropagation();
    if (composing) return;
    event.preventDefault();
    sendMessage();
  }, true);

  // The chat fills the window below the bar, and the bar grows with its engines and cards.
  const measureBar = new ResizeObserver(([entry]) => document.documentElement.style.setProperty("--vp-bar-height", `${entry.target.offsetHeight}px`));
  volta.bar = (element, relabel) => { volta.attach(element); measureBar.observe(document.getElementById("vp-bar")); volta.relabel = relabel; };

  volta.on("sent", messageTaken);
  volta.on("refused", () => { pending = null; });
  volta.greet(() => { pending = null; });
  volta.on("toast", ({ text, kind }) => toast(text, kind));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  const begin = () => { showTheme(); volta.start(); };
  if (document.body) begin(); else document.addEventListener("DOMContentLoaded", begin);
})();
