"use strict";
(() => {
  // Drafts: what was typed survives a refresh of the page or of a part of it.
  const key = (field) => `draft:${field.dataset.draft}`;
  const grow = (field) => {
    if (!("grow" in field.dataset)) return;
    field.rows = Math.min(8, Math.max(1, field.value.split("\n").length));
  };
  const restore = () => {
    for (const field of document.querySelectorAll("textarea[data-draft]")) {
      if (!field.value) field.value = sessionStorage.getItem(key(field)) || "";
      const fold = field.closest("details.comment");
      if (fold && field.value) fold.open = true;
      grow(field);
    }
  };
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("textarea[data-draft]")) return;
    sessionStorage.setItem(key(target), target.value);
    grow(target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  });
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-send]")) target.form.requestSubmit();
  });

  // A second press while the first is under way does nothing.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.classList.contains("sent")) return event.preventDefault();
    form.classList.add("sent");
    for (const field of form.querySelectorAll("textarea[data-draft]")) sessionStorage.removeItem(key(field));
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form.sent")) form.classList.remove("sent");
  });
  document.addEventListener("click", ({ target }) => {
    for (const menu of document.querySelectorAll("details.who[open]")) {
      if (!menu.contains(target)) menu.open = false;
    }
  });

  document.addEventListener("news", restore);
  restore();
})();
