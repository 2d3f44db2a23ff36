// What pages gain from scripts: they follow what happens, filters work at once, times are the reader's own.
// Without scripts every page shows the same; the address is the state.
"use strict";
(() => {
  const today = (time) => time.toDateString() === new Date().toDateString();
  const clock = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat([], { month: "short", day: "numeric" });
  const full = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "long" });

  const tick = {
    second: clock,
    minute: new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
    day,
  };

  function localTimes(root) {
    for (const element of root.querySelectorAll("text[data-time]")) {
      const time = new Date(element.dataset.time);
      // A day that begins elsewhere is an hour here.
      const form = element.dataset.form === "day" && time.getHours() ? "minute" : element.dataset.form;
      element.textContent = tick[form].format(time);
    }
    for (const element of root.querySelectorAll("time[datetime]")) {
      const time = new Date(element.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      const short = today(time) ? clock.format(time) : `${day.format(time)}, ${clock.format(time)}`;
      element.textContent = element.dataset.form === "full" ? full.format(time) : short;
      element.title = element.dateTime;
    }
    for (const element of root.querySelectorAll("[data-zone]")) element.textContent = "";
  }

  // ---- the part of the page that changes ----

  const live = () => document.getElementById("live");
  // Something in the old part, found again in the new one: by its id, else by where its link goes.
  const same = (element, root) => {
    if (element.id) return root.querySelector(`#${CSS.escape(element.id)}`);
    const href = element.getAttribute("href");
    return href && root.querySelector(`a[href="${CSS.escape(href)}"]`);
  };

  function replaceLive(text) {
    const before = live();
    const after = new DOMParser().parseFromString(text, "text/html").getElementById("live");
    if (!before || !after) return;
    localTimes(after);
    for (const details of before.querySelectorAll("details[id]")) {
      const again = same(details, after);
      if (again) again.open = details.open;
    }
    if (before.innerHTML === after.innerHTML) return;
    const focused = before.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = [...before.querySelectorAll("[id]")].filter((element) => element.scrollLeft || element.scrollTop);
    const { scrollX, scrollY } = window;
    before.replaceWith(after);
    for (const element of scrolled) {
      const again = same(element, after);
      if (again) again.scrollTo(element.scrollLeft, element.scrollTop);
    }
    if (focused) same(focused, after)?.focus({ preventScroll: true });
    window.scrollTo(scrollX, scrollY);
  }

  // The tag of the page that is shown: an answer without a change is empty.
  let tag = "";
  let latest = 0;
  async function load(address, known = "") {
    const number = ++latest;
    const headers = { Accept: "text/html" };
    if (known) headers["If-None-Match"] = known;
    const answer = await fetch(address, { headers });
    const text = await answer.text();
    // An answer that a later question has overtaken is old.
    if (!answer.ok || number !== latest) return;
    tag = answer.headers.get("ETag") || "";
    replaceLive(text);
  }

  // ---- following what happens ----

  const EVERY_MS = 1500;

  function follow() {
    const connection = document.getElementById("connection");
    const status = connection.querySelector("[role=status]");
    const button = connection.querySelector("button");
    const WORDS = { live: "Live", paused: "Paused", lost: "Connection lost, trying again", wait: "Connecting" };
    let isPaused = false;
    let timer = 0;

    const show = (state) => {
      if (connection.dataset.state === state) return;
      connection.dataset.state = state;
      status.textContent = WORDS[state];
    };
    const poll = async () => {
      clearTimeout(timer);
      timer = 0;
      if (isPaused || document.hidden) return;
      let state = "live";
      try {
        await load(location.href, tag);
      } catch {
        state = "lost";
      }
      if (!isPaused) show(state);
      if (!timer) timer = setTimeout(poll, EVERY_MS);
    };

    show("wait");
    poll();
    button.addEventListener("click", () => {
      isPaused = !isPaused;
      button.setAttribute("aria-pressed", String(isPaused));
      show(isPaused ? "paused" : "live");
      poll();
    });
    document.addEventListener("visibilitychange", poll);
    connection.hidden = false;
  }

  // ---- filters ----

  function filter(form) {
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    const query = new URLSearchParams(fields).toString();
    const address = new URL(form.action);
    address.search = query;
    history.pushState(null, "", address);
    load(address.href).catch(() => location.assign(address));
  }

  function watchFilters() {
    for (const form of document.querySelectorAll("form.filters")) {
      form.addEventListener("change", () => filter(form));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        filter(form);
      });
      for (const button of form.querySelectorAll("[data-without-script]")) button.hidden = true;
      addEventListener("popstate", () => location.reload());
    }
  }

  // ---- verdicts by a single key, except where somebody types ----

  const rowLinks = () => [...document.querySelectorAll("tr[data-run] th a")];
  const isTyping = (element) => element.matches("input, select, textarea, [contenteditable]");

  function move(by) {
    const links = rowLinks();
    if (!links.length) {
      document.querySelector(by > 0 ? ".pager [rel=next]" : ".pager [rel=prev]")?.click();
      return;
    }
    const at = links.indexOf(document.activeElement);
    links[at < 0 ? 0 : Math.min(Math.max(at + by, 0), links.length - 1)].focus();
  }

  async function mark(word) {
    const form = document.getElementById("verdict");
    if (form) {
      const button = form.querySelector(`button[value="${word}"]`);
      if (word === "good") {
        form.requestSubmit(button);
        return;
      }
      // A reason helps others: Enter alone says bad without one.
      form.dataset.pending = word;
      form.elements.reason.focus();
      return;
    }
    const row = document.activeElement.closest("tr[data-run]");
    if (!row) return;
    const body = new URLSearchParams({ id: row.dataset.run, verdict: word, reason: "" });
    const answer = await fetch("/verdict", { method: "POST", body, headers: { Accept: "application/json" } });
    if (answer.ok) await load(location.href);
  }

  function watchKeys() {
    const actions = { j: () => move(1), k: () => move(-1), g: () => mark("good"), b: () => mark("bad") };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      const form = document.getElementById("verdict");
      if (form && event.target === form.elements.reason) {
        if (event.key === "Escape") event.target.blur();
        if (event.key === "Enter" && form.dataset.pending) {
          event.preventDefault();
          form.requestSubmit(form.querySelector(`button[value="${form.dataset.pending}"]`));
        }
        return;
      }
      const action = actions[event.key];
      if (!action || isTyping(event.target) || !(form || rowLinks().length)) return;
      event.preventDefault();
      Promise.resolve(action()).catch(() => location.reload());
    });
    for (const element of document.querySelectorAll("[data-with-script]")) element.hidden = false;
  }

  // ---- a file of many trajectories, without a server ----

  function watchDocument(form) {
    const entries = [...document.querySelectorAll("section.entry")];
    const valuesOf = (entry, name) => (entry.dataset[name] || "").split("\n").filter(Boolean);
    for (const select of form.querySelectorAll("select")) {
      const values = [...new Set(entries.flatMap((entry) => valuesOf(entry, select.name)))].sort();
      for (const value of values) select.add(new Option(value.replace("not_evaluated", "not evaluated"), value));
      select.parentElement.hidden = values.length < 2;
    }
    const apply = () => {
      const wanted = [...new FormData(form)].filter(([, value]) => value);
      for (const entry of entries) entry.hidden = !wanted.every(([name, value]) => valuesOf(entry, name).includes(value));
      const shown = entries.filter((entry) => !entry.hidden).length;
      document.getElementById("document-status").textContent = `${shown} of ${entries.length} trajectories`;
    };
    const reveal = () => {
      const details = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest(".entry")?.querySelector("details");
      if (details) details.open = true;
    };
    form.addEventListener("change", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", reveal);
    form.hidden = false;
    apply();
    reveal();
  }

  function begin() {
    localTimes(document);
    const form = document.getElementById("document-filters");
    if (form) watchDocument(form);
    else watchKeys();
    if (live()) {
      watchFilters();
      follow();
    }
  }

  // A script within the page runs before the page is there.
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
