"use strict";
(() => {
  // Times: said relative to now, absolute on hover.
  const units = [["days", 86400], ["h", 3600], ["min", 60]];
  const said = (moment) => {
    const seconds = Math.round((moment - Date.now()) / 1000);
    const size = Math.abs(seconds);
    if (size > 6 * 86400) {
      return moment.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
    }
    const found = units.find(([, length]) => size >= length);
    if (!found) return seconds > 0 ? `in ${seconds} s` : size < 20 ? "just now" : "a moment ago";
    const count = Math.round(size / found[1]);
    const words = `${count} ${found[0] === "days" && count === 1 ? "day" : found[0]}`;
    return seconds > 0 ? `in ${words}` : `${words} ago`;
  };
  const tick = (root = document) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const text = said(new Date(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  };

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

  // Parts: of a page read again, only what changed is put in; entries are appended.
  const merge = (fragment) => {
    const fresh = [];
    for (const part of fragment.querySelectorAll("[data-part]")) {
      const old = document.getElementById(part.id);
      if (!old || old.dataset.seen === part.dataset.seen) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      old.replaceWith(part);
      if (focused) document.getElementById(focused)?.focus();
      fresh.push(part);
    }
    const log = document.querySelector("[data-log]");
    for (const entry of fragment.querySelectorAll("[data-log] > li")) {
      if (log && !document.getElementById(entry.id)) fresh.push(log.appendChild(entry));
    }
    return fresh;
  };
  const atEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 60;
  htmx.defineExtension("parts", {
    isInlineSwap: (style) => style === "parts",
    handleSwap: (style, target, fragment) => {
      if (style !== "parts") return false;
      if (!fragment.querySelector("[data-part]")) {
        location.reload(); // signed out, or a newer release: the page itself says which
        return [];
      }
      const follow = scrollY > 0 && atEnd();
      const fresh = merge(fragment);
      restore();
      tick();
      if (follow) scrollTo({ top: document.documentElement.scrollHeight });
      return fresh;
    },
  });
  const away = (gone) => { document.getElementById("away").hidden = !gone; };
  document.addEventListener("htmx:responseError", () => away(true));
  document.addEventListener("htmx:sendError", () => away(true));
  document.addEventListener("htmx:afterOnLoad", () => away(false));

  restore();
  tick();
  setInterval(tick, 15000);
})();
