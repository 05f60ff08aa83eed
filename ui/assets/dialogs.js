// Dialogs and forms: the panel renders a form, the page shows it, collects its fields by name and sends them as one action.
"use strict";
(() => {
  const volta = window.volta;
  let dialog = null;

  function open({ html, wide }) {
    close();
    dialog = document.createElement("dialog");
    dialog.className = wide ? "vp vp-dialog is-wide" : "vp vp-dialog";
    dialog.innerHTML = html;
    dialog.setAttribute("aria-label", dialog.querySelector("h3, p")?.textContent ?? "");
    const mine = dialog;
    mine.addEventListener("close", () => { if (dialog === mine) close(); }); // the event comes late: the next may be open by then
    document.body.append(dialog);
    dialog.showModal();
    volta.attach(dialog);
    (dialog.querySelector("[autofocus]") ?? dialog.querySelector("input, textarea, select"))?.focus();
    dialog.querySelectorAll("textarea").forEach(showContent);
  }
  // A preset begins with what its keys mean: the box opens at the preset itself, and the rest is a scroll away.
  function showContent(box) {
    const lines = box.value.split("\n"), first = lines.findIndex((line) => line && !line.startsWith("#"));
    if (first < 1) return;
    const start = lines.slice(0, first).join("\n").length + 1;
    box.setSelectionRange(start, start);
    box.scrollTop = first * parseFloat(getComputedStyle(box).lineHeight);
  }
  function close() {
    const old = dialog;
    dialog = null;
    if (old?.open) old.close(); // gives the focus back to what opened it
    old?.remove();
  }
  function refuse({ text }) {
    const place = dialog?.querySelector(".vp-form-error");
    if (!place) return;
    place.textContent = text;
    for (const button of dialog.querySelectorAll("button[type=submit]")) button.disabled = false;
  }
  function fieldsOf(form) {
    const fields = {};
    for (const element of form.elements) {
      if (!element.name) continue;
      if (element.type === "radio" && !element.checked) continue;
      fields[element.name] = element.type === "checkbox" ? element.checked : element.value;
    }
    return fields;
  }

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-form]");
    if (!form) return;
    event.preventDefault();
    const { form: action, ...data } = form.dataset;
    const sent = volta.send({ ...data, do: action, form: Boolean(form.closest("dialog")), fields: fieldsOf(form) });
    if (!sent) return void refuse({ text: volta.word("bar.reconnecting") });
    if (form.closest("dialog")) for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = true;
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-close]")) close();
  });
  // A press on the backdrop closes; one that only ends there, as when marking text, or on the dialog's own edge does not.
  document.addEventListener("mousedown", (event) => {
    if (!dialog || event.target !== dialog) return;
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    if (event.clientX < left || event.clientX > right || event.clientY < top || event.clientY > bottom) close();
  });
  // What the browser itself refuses may lie in a fold, where nobody would see why nothing happens.
  document.addEventListener("invalid", (event) => event.target.closest("details")?.setAttribute("open", ""), true);

  // What cannot be undone is asked once more, in words of its own: the button says which.
  function confirm(button) {
    open({ html: '<p></p><div class="vp-row vp-actions"><button class="vp-button is-danger" data-yes></button><button class="vp-button" data-close autofocus></button></div>' });
    dialog.querySelector("p").textContent = button.dataset.confirm;
    dialog.setAttribute("aria-label", button.dataset.confirm);
    dialog.querySelector("[data-close]").textContent = volta.word("dialog.cancel");
    const yes = dialog.querySelector("[data-yes]");
    yes.textContent = button.textContent.trim();
    const { confirm: _, ...data } = button.dataset;
    yes.addEventListener("click", () => { volta.send(data); close(); });
  }

  // A live form is considered anew while a person types; an answer that a later one has overtaken is dropped.
  const PAUSE_MS = 120;
  let asked = 0, shown = 0, pause = null; // numbers go on from form to form: an answer meant for the last one is too old
  function consider(form) {
    clearTimeout(pause);
    pause = setTimeout(() => {
      if (!form.isConnected) return;
      const { form: _, live: action, ...data } = form.dataset;
      volta.send({ ...data, do: action, number: ++asked, fields: fieldsOf(form) });
    }, PAUSE_MS);
  }
  function considered({ number, slots }) {
    if (number && number < shown) return;
    shown = number || ++asked; // without a number: a form that was just opened
    for (const [name, html] of Object.entries(slots)) volta.fill(name, html);
  }
  document.addEventListener("keydown", (event) => { // Enter in a field of such a form starts nothing: its button does
    if (event.key === "Enter" && event.target.matches?.("[data-live] input")) event.preventDefault();
  });
  function tickCards(form, uuids) {
    for (const box of form.querySelectorAll('[name^="card/"]')) box.checked = uuids.includes(box.name.slice(5));
    consider(form);
  }
  document.addEventListener("input", (event) => { const form = event.target.closest("[data-live]"); if (form) consider(form); });
  // What others use of a card changes without us, and a hub takes its time to answer.
  setInterval(() => { const form = dialog?.querySelector("[data-live]"); if (form && !document.hidden) consider(form); }, 4000);
  document.addEventListener("click", (event) => { // a finding's button changes a field, and shows it
    const button = event.target.closest('[data-do="form.set"]');
    const { field, value } = button?.dataset ?? {};
    const form = button?.closest("form");
    if (form && field === "cards") return void tickCards(form, value.split(","));
    const input = form?.elements[field];
    if (!input) return;
    input.closest("[data-more]")?.setAttribute("open", "");
    if (input.options && ![...input.options].some((option) => option.value === value)) input.add(new Option(value, value));
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.focus();
  });

  function saveFile({ name, text }) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  // A file that a person picks goes into the text box it belongs to; what it says is checked by the panel.
  document.addEventListener("change", async (event) => {
    const target = event.target.dataset?.fills;
    if (target === undefined || !event.target.files?.length) return;
    const box = event.target.form.elements[target];
    const file = event.target.files[0];
    if (file.size > 262144) return void refuse({ text: volta.word("dialog.file_large") });
    box.value = await file.text();
  });

  volta.confirm = confirm;
  volta.on("dialog", open);
  volta.on("dialog_close", close);
  volta.on("dialog_error", refuse);
  volta.on("considered", considered);
  volta.on("save_file", saveFile);
})();
