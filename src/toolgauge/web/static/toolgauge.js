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

  let latest = 0;
  async function load(address) {
    const number = ++latest;
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    const text = await answer.text();
    // An answer that a later question has overtaken is old.
    if (answer.ok && number === latest) replaceLive(text);
  }

  // ---- following what happens ----

  const PAUSE_MS = 1000;
  const RETRY_MS = 10000;

  function follow() {
    const connection = document.getElementById("connection");
    const status = connection.querySelector("[role=status]");
    const button = connection.querySelector("button");
    const WORDS = { live: "Live", paused: "Paused", lost: "Connection lost, trying again", wait: "Connecting" };
    const names = (live().dataset.live || "").split(" ").filter(Boolean);
    let isPaused = false;
    let isOpen = false;
    let isStale = false;
    let timer = 0;

    const show = (state) => {
      if (connection.dataset.state === state) return;
      connection.dataset.state = state;
      status.textContent = WORDS[state];
    };
    const refresh = () => {
      timer = 0;
      if (isPaused || document.hidden || !isStale) return;
      isStale = false;
      load(location.href).catch(() => {
        isStale = true;
        show("lost");
      });
    };
    const changed = () => {
      isStale = true;
      if (!timer) timer = setTimeout(refresh, PAUSE_MS);
    };
    const state = () => show(isPaused ? "paused" : isOpen ? "live" : "lost");

    let events = null;
    const listen = () => {
      if (document.hidden || (events && events.readyState !== EventSource.CLOSED)) return;
      events = new EventSource("/events");
      events.addEventListener("open", () => {
        // What happened while nobody listened is not sent again.
        if (connection.dataset.state === "lost" || isStale) changed();
        isOpen = true;
        state();
      });
      events.addEventListener("error", () => {
        isOpen = false;
        state();
        // After an answer that is no stream the browser does not try again by itself.
        if (events.readyState === EventSource.CLOSED) setTimeout(listen, RETRY_MS);
      });
      for (const name of names) events.addEventListener(name, changed);
    };

    show("wait");
    listen();
    button.addEventListener("click", () => {
      isPaused = !isPaused;
      button.setAttribute("aria-pressed", String(isPaused));
      state();
      refresh();
    });
    // A browser has six connections for all pages of one server: those that nobody looks at keep none.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        events?.close();
        isStale = true;
      } else {
        listen();
        refresh();
      }
    });
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
    if (live()) {
      watchFilters();
      follow();
    }
  }

  // A script within the page runs before the page is there.
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
