"use strict";
(() => {
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("ampaudit-theme"); } catch { return null; } })();
  const system = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (name) => { root.dataset.theme = name; };
  setTheme(stored || (system.matches ? "dark" : "light"));
  const el = (tag, attrs = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attrs)) node.setAttribute(name, value);
    for (const child of children) node.append(child);
    return node;
  };
  document.addEventListener("DOMContentLoaded", () => {
    const theme = document.getElementById("theme");
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      setTheme(next);
      try { localStorage.setItem("ampaudit-theme", next); } catch { /* a file:// page may have no storage */ }
    });
    const copy = document.getElementById("copy");
    if (copy) {
      copy.hidden = false;
      copy.addEventListener("click", async () => {
        const text = document.getElementById("snippet").textContent;
        try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; } catch { copy.textContent = "Select and copy"; }
      });
    }
    layers();
  });

  // The layer table shows a window of rows: thousands stay smooth.
  const ROW = 58, EXTRA = 6;
  function layers() {
    const view = document.getElementById("layer-view");
    if (!view) return;
    const all = JSON.parse(document.getElementById("data").textContent).map((row, index) => ({ ...row, index }));
    const search = document.getElementById("search"), precision = document.getElementById("precision"), only = document.getElementById("only");
    const count = document.getElementById("count"), body = document.getElementById("layer-body");
    document.getElementById("layer-tools").hidden = false;
    const top = el("tr", { class: "pad", "aria-hidden": "true" }, el("td", { colspan: "7" }));
    const bottom = top.cloneNode(true);
    let shown = all, sort = null, descending = false, chosen = null, drawn = "";
    const chip = (p) => el("span", { class: "chip p-" + p }, p.toUpperCase());
    const candidate = (c) => {
      if (!c) return el("td", {}, "–");
      const word = c.safe === null ? "unknown" : c.safe ? "✔ safe" : "✖ unsafe";
      return el("td", {}, el("span", { class: "chip " + (c.safe ? "ok" : "broken") }, word), el("div", { class: "small soft" }, "error " + c.error));
    };
    const draw = () => {
      const first = Math.max(Math.floor(view.scrollTop / ROW) - EXTRA, 0);
      const last = Math.min(first + Math.ceil(view.clientHeight / ROW) + 2 * EXTRA, shown.length);
      const key = first + ":" + last + ":" + chosen;
      if (key === drawn) return;
      drawn = key;
      top.firstChild.style.height = first * ROW + "px";
      bottom.firstChild.style.height = (shown.length - last) * ROW + "px";
      const rows = shown.slice(first, last).map((row) => {
        const why = el("div", { title: row.why }, row.why);
        const tr = el("tr", { "data-module": row.module, tabindex: "0", class: row.module === chosen ? "chosen" : "", "aria-rowindex": row.index + 2 },
          el("td", { class: "mono" }, row.module, el("div", { class: "small soft" }, row.type + (row.place ? " · " + row.place : ""))),
          el("td", {}, chip(row.precision)), el("td", { class: "why small" }, why),
          candidate(row.candidates.fp16), candidate(row.candidates.bf16), candidate(row.candidates.tf32),
          el("td", { class: "n" }, (100 * row.share).toFixed(1) + " %"));
        const pick = () => { chosen = row.module; save(); draw(); };
        tr.addEventListener("click", pick);
        tr.addEventListener("keydown", (event) => { if (event.key === "Enter") pick(); });
        return tr;
      });
      body.replaceChildren(top, ...rows, bottom);
    };
    const save = () => {
      const state = new URLSearchParams();
      if (chosen !== null) state.set("layer", chosen);
      if (search.value) state.set("q", search.value);
      if (precision.value) state.set("precision", precision.value);
      if (only.checked) state.set("findings", "1");
      history.replaceState(null, "", "#" + state.toString());
    };
    const filter = () => {
      const text = search.value.toLowerCase();
      shown = all.filter((row) => (!precision.value || row.precision === precision.value) && (!only.checked || row.findings.length)
        && (!text || (row.module + " " + row.type + " " + row.ops + " " + row.why).toLowerCase().includes(text)));
      if (sort) {
        const value = { module: (r) => r.module, precision: (r) => r.precision, share: (r) => r.share }[sort];
        shown = [...shown].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : a.index - b.index) * (descending ? -1 : 1));
      }
      count.textContent = shown.length + " of " + all.length + " layers";
      drawn = "";
      draw();
    };
    const restore = () => {
      const state = new URLSearchParams(location.hash.slice(1));
      if (![...state.keys()].some((k) => ["layer", "q", "precision", "findings"].includes(k))) return;
      search.value = state.get("q") || "";
      precision.value = state.get("precision") || "";
      only.checked = state.get("findings") === "1";
      chosen = state.get("layer");
      filter();
      const at = shown.findIndex((row) => row.module === chosen);
      if (at >= 0) { view.scrollTop = Math.max(at * ROW - ROW, 0); drawn = ""; draw(); view.scrollIntoView({ block: "center" }); }
    };
    for (const control of [search, precision, only]) control.addEventListener("input", () => { view.scrollTop = 0; filter(); save(); });
    for (const button of document.querySelectorAll("#layer-view th button")) {
      button.addEventListener("click", () => {
        descending = sort === button.dataset.sort ? !descending : button.dataset.sort === "share";
        sort = button.dataset.sort;
        for (const th of document.querySelectorAll("#layer-view th[aria-sort]")) th.setAttribute("aria-sort", "none");
        button.closest("th").setAttribute("aria-sort", descending ? "descending" : "ascending");
        filter();
      });
    }
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); search.focus(); }
    });
    view.addEventListener("scroll", draw, { passive: true });
    addEventListener("hashchange", restore);
    addEventListener("resize", () => { drawn = ""; draw(); });
    filter();
    restore();
  }
})();
