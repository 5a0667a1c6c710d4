"use strict";
(() => {
  // Parts: of a page read again, only what changed is put in; entries are appended.
  const merge = (fragment) => {
    const fresh = [];
    let again = null;
    for (const part of fragment.querySelectorAll("[data-part]")) {
      const old = document.getElementById(part.id);
      if (!old || old.dataset.seen === part.dataset.seen) continue;
      const held = old.contains(document.activeElement) ? document.activeElement : null;
      old.replaceWith(part);
      fresh.push(part);
      if (held?.id) again = { id: held.id, at: held.selectionStart };
    }
    const log = document.querySelector("[data-log]");
    for (const entry of fragment.querySelectorAll("[data-log] > li")) {
      if (log && !document.getElementById(entry.id)) fresh.push(log.appendChild(entry));
    }
    document.dispatchEvent(new Event("news"));
    const field = again && document.getElementById(again.id);
    if (field) {
      field.focus({ preventScroll: true });
      if (again.at != null) field.setSelectionRange(again.at, again.at);
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
      if (follow) scrollTo({ top: document.documentElement.scrollHeight });
      return fresh;
    },
  });
  const away = (gone) => { document.getElementById("away").hidden = !gone; };
  document.addEventListener("htmx:responseError", () => away(true));
  document.addEventListener("htmx:sendError", () => away(true));
  document.addEventListener("htmx:afterOnLoad", () => away(false));
})();
