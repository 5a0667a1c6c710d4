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
  const clock = (moment) => {
    const at = moment.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    const day = (date) => date.toDateString();
    if (day(moment) === day(new Date())) return at;
    if (day(moment) === day(new Date(Date.now() + 86400000))) return `tomorrow ${at}`;
    return moment.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" }) + ` ${at}`;
  };
  const tick = (root = document) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(time.dateTime);
      const text = time.classList.contains("clock") ? clock(moment) : said(moment);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  document.addEventListener("news", () => tick());
  tick();
  setInterval(() => tick(), 15000);
})();
