// Puts frames into the page: slots (whole fragments), lists (keyed children), chat (blocks by index).
// Fragments come rendered and escaped from the panel; everything else goes in as text.
"use strict";
(() => {
  const volta = window.volta;
  const slots = new Map(); // name -> html, kept for elements that appear later
  const lists = new Map(); // name -> [[key, html], ...]
  let chat = null; // {messages: Map id -> {role, html, blocks, foot}, order, empty}
  let words = {};

  const find = (attribute, name) => document.querySelector(`[${attribute}="${CSS.escape(name)}"]`);
  const atEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  const word = (key) => words[key] ?? "";

  // Keyboard users keep their place: gives back a function that puts the focus where it was.
  function placeOf(element) {
    const active = document.activeElement;
    if (!active || active === element || !element.contains(active)) return null;
    const { do: action, change } = active.dataset;
    const like = action ? `[data-do="${CSS.escape(action)}"]` : change ? `[data-change="${CSS.escape(change)}"]` : active.matches("summary") ? "summary" : active.matches("[type=submit]") ? "[type=submit]" : null;
    if (!like) return null;
    const index = [...element.querySelectorAll(like)].indexOf(active);
    return () => { const found = element.querySelectorAll(like); (found[index] ?? found[0])?.focus({ preventScroll: true }); };
  }
  function fillSlot(element, html) {
    if (element.vpHtml === html) return;
    const place = placeOf(element);
    const folds = [...element.querySelectorAll("details")].map((fold) => fold.open);
    const known = element.vpHtml !== undefined;
    element.vpHtml = html;
    element.innerHTML = html;
    const now = element.querySelectorAll("details");
    if (known && now.length === folds.length) now.forEach((fold, index) => { fold.open = folds[index]; }); // as a person left them
    place?.();
    attach(element);
  }
  function fillList(element, items) {
    const wanted = new Set(items.map(([key]) => key));
    for (const child of [...element.children]) if (!wanted.has(child.dataset.key)) child.remove();
    items.forEach(([key, html], index) => {
      let child = [...element.children].find((candidate) => candidate.dataset.key === key);
      if (!child) { child = document.createElement("div"); child.dataset.key = key; }
      if (element.children[index] !== child) element.insertBefore(child, element.children[index] ?? null);
      fillSlot(child, html);
    });
  }

  // What arrived before an element existed is filled in when it appears.
  function attach(root) {
    for (const element of root.querySelectorAll("[data-slot]")) if (slots.has(element.dataset.slot)) fillSlot(element, slots.get(element.dataset.slot));
    for (const element of root.querySelectorAll("[data-list]")) if (lists.has(element.dataset.list)) fillList(element, lists.get(element.dataset.list));
    volta.attachLogs?.(root);
    if (root.querySelector("[data-chat]")) drawChat();
    tick();
  }

  function showAnswering(answering) {
    document.body.classList.toggle("vp-answering", answering);
    document.querySelector("[data-chat]")?.setAttribute("aria-busy", String(answering)); // read out once it is whole
  }
  function messageElement(id, message) {
    const element = document.createElement("div");
    element.className = `vp-message is-${message.role}`;
    element.dataset.message = id;
    element.innerHTML = message.html; // holds .vp-blocks and .vp-foot for an answer
    (message.blocks ?? []).forEach((html, index) => setBlock(element, index, html));
    const foot = element.querySelector(".vp-foot");
    if (foot) foot.innerHTML = message.foot ?? "";
    return element;
  }
  function setBlock(element, index, html) {
    const holder = element.querySelector(".vp-blocks");
    while (holder.children.length <= index) holder.append(document.createElement("div"));
    const block = holder.children[index];
    if (block.vpHtml === html) return;
    const unfolded = block.querySelector("details")?.open; // what a person opened stays open while it grows
    block.vpHtml = html;
    block.innerHTML = html;
    if (unfolded) block.querySelector("details").open = true;
  }
  function drawChat() {
    const box = document.querySelector("[data-chat]");
    if (!box || !chat) return;
    const parts = chat.order.map((id) => messageElement(id, chat.messages.get(id)));
    box.replaceChildren(...parts);
    if (!parts.length) { const empty = document.createElement("div"); empty.innerHTML = chat.empty; box.append(empty); }
    box.scrollTop = box.scrollHeight;
    showAnswering(chat.answering);
    tick();
  }
  function resetChat(frame) {
    chat = { messages: new Map(), order: [], empty: frame.empty, answering: frame.answering };
    for (const message of frame.messages) { chat.messages.set(message.id, message); chat.order.push(message.id); }
    drawChat();
  }
  function appendMessages(frame) {
    if (!chat) return;
    const box = document.querySelector("[data-chat]");
    if (!chat.order.length) box?.replaceChildren();
    for (const message of frame.messages) {
      chat.messages.set(message.id, message);
      chat.order.push(message.id);
      box?.append(messageElement(message.id, message));
    }
    chat.answering = frame.answering;
    showAnswering(chat.answering);
    if (box) box.scrollTop = box.scrollHeight; // one's own message is always brought into view
  }
  function growAnswer({ id, from, blocks, foot, answering }) {
    const message = chat?.messages.get(id);
    if (!message) return;
    message.blocks = [...message.blocks.slice(0, from), ...blocks];
    if (foot !== undefined) message.foot = foot;
    chat.answering = answering;
    showAnswering(answering);
    const element = find("data-message", id), box = document.querySelector("[data-chat]");
    if (!element || !box) return;
    const follow = atEnd(box);
    blocks.forEach((html, offset) => setBlock(element, from + offset, html));
    const holder = element.querySelector(".vp-blocks");
    while (holder.children.length > message.blocks.length) holder.lastElementChild.remove();
    if (foot !== undefined) element.querySelector(".vp-foot").innerHTML = foot;
    if (follow) box.scrollTop = box.scrollHeight;
  }

  // "3 min 12 s" since a wall-clock second; ticks here so that the panel need not push a clock.
  function span(seconds) {
    const s = Math.max(0, Math.floor(seconds)), u = (key) => ` ${word("unit." + key)}`;
    if (s < 60) return s + u("s");
    if (s < 3600) return Math.floor(s / 60) + u("min") + " " + (s % 60) + u("s");
    if (s < 86400) return Math.floor(s / 3600) + u("h") + " " + Math.floor((s % 3600) / 60) + u("min");
    return Math.floor(s / 86400) + u("d") + " " + Math.floor((s % 86400) / 3600) + u("h");
  }
  let clockOffset = 0; // panel clock minus browser clock, seconds
  function tick() {
    const now = Date.now() / 1000 + clockOffset;
    for (const element of document.querySelectorAll("[data-since]")) element.textContent = span(now - Number(element.dataset.since));
    for (const element of document.querySelectorAll("[data-until]")) element.textContent = span(Number(element.dataset.until) - now);
  }
  setInterval(tick, 1000);

  const showLanguage = (language) => {
    for (const button of document.querySelectorAll("[data-language]")) button.setAttribute("aria-pressed", String(button.dataset.language === language));
  };

  volta.fill = (slot, html) => { slots.set(slot, html); const element = find("data-slot", slot); if (element) fillSlot(element, html); tick(); };
  volta.on("slot", ({ slot, html }) => volta.fill(slot, html));
  volta.on("list", ({ list, items }) => { lists.set(list, items); const element = find("data-list", list); if (element) { fillList(element, items); volta.afterList?.(list); } });
  volta.on("chat", resetChat);
  volta.on("append", appendMessages);
  volta.on("grow", growAnswer);
  volta.on("words", (frame) => { words = frame.words; clockOffset = frame.now - Date.now() / 1000; document.documentElement.lang = frame.language; showLanguage(frame.language); tick(); });
  volta.attach = attach;
  volta.word = word;
})();
