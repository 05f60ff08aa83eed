// A log view: lines by number, kept at the end while a person is there, filtered by level and searched on the page.
"use strict";
(() => {
  const volta = window.volta;
  const LOG_LINES = 2000;
  const atEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  const find = (name) => document.querySelector(`[data-log="${CSS.escape(name)}"]`);
  const wanted = new Map(); // log -> {level, words}: survives a card that is drawn anew

  // A line without a level of its own (a traceback, a table) belongs to the line before it.
  const SIGNS = [["error", /\b(ERROR|CRITICAL|FATAL)\b|^\s*(\([^)]*\)\s*)?[\w.]*(Error|Exception)\b:|^Traceback|^E\d{4} \d\d:/], ["warning", /^W\d{4} \d\d:|\bWARN(ING)?\b|\w+Warning:/], ["info", /^I\d{4} \d\d:|\b(INFO|DEBUG)\b/]];
  const RANK = { error: 2, warning: 1, info: 0 };
  const levelOf = (text, before) => SIGNS.find(([, sign]) => sign.test(text))?.[0] ?? before ?? "info";

  // Asked for only while it can be seen.
  const watched = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!target.isConnected || !isIntersecting) watched.delete(target.dataset.log); else watched.add(target.dataset.log);
    }
    volta.send({ watch: [...watched] });
  });

  const filterOf = (name) => wanted.get(name) ?? { level: "info", words: "" };
  function applyFilter(row, filter) {
    const hidden = RANK[row.dataset.level] < RANK[filter.level] || (filter.words && !row.textContent.toLowerCase().includes(filter.words));
    row.hidden = Boolean(hidden);
  }
  function refilter(name) {
    const box = find(name), filter = filterOf(name);
    if (!box) return;
    for (const row of box.children) if (row.dataset.number) applyFilter(row, filter);
    const shown = [...box.children].some((row) => !row.hidden);
    box.dataset.empty = shown || !box.childElementCount ? "" : volta.word("log.nothing_matches");
    box.scrollTop = box.scrollHeight;
  }

  function addLines({ engine, lines, skipped, reset }) {
    const box = find(engine);
    if (!box) return;
    const follow = atEnd(box), filter = filterOf(engine);
    if (reset) box.replaceChildren();
    if (skipped) {
      const gap = document.createElement("div");
      gap.className = "vp-skipped";
      gap.textContent = volta.word("launch.log_skipped").replace("{lines}", skipped);
      box.append(gap);
    }
    for (const [number, text] of lines) {
      let row = box.lastElementChild;
      while (row && Number(row.dataset.number) > number) row = row.previousElementSibling;
      if (!row || Number(row.dataset.number) !== number) {
        const before = box.lastElementChild?.dataset.level;
        row = document.createElement("div");
        row.dataset.number = number;
        row.dataset.level = levelOf(text, before);
        box.append(row);
      }
      row.textContent = text || " ";
      applyFilter(row, filter);
    }
    while (box.childElementCount > LOG_LINES) box.firstElementChild.remove();
    if (follow) box.scrollTop = box.scrollHeight;
  }

  function attach(root) {
    for (const box of root.querySelectorAll("[data-log]")) watch.observe(box);
    for (const tool of root.querySelectorAll("[data-log-tool]")) {
      const filter = filterOf(tool.dataset.of);
      tool.value = tool.dataset.logTool === "level" ? filter.level : filter.words;
    }
  }
  function changed(event) {
    const tool = event.target.dataset?.logTool;
    if (!tool) return;
    const name = event.target.dataset.of, filter = { ...filterOf(name) };
    if (tool === "level") filter.level = event.target.value; else filter.words = event.target.value.trim().toLowerCase();
    wanted.set(name, filter);
    refilter(name);
  }
  document.addEventListener("input", changed);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-log-end]");
    if (!button) return;
    const box = find(button.dataset.logEnd);
    if (box) box.scrollTop = box.scrollHeight;
  });

  volta.on("log", addLines);
  volta.greet(() => ({ watch: [...watched] }));
  volta.attachLogs = attach;
})();
