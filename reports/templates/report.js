"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("ampaudit-theme"); } catch { return null; } };
  const remember = (name) => { try { localStorage.setItem("ampaudit-theme", name); } catch { /* file:// may have no storage */ } };
  // Before the body is drawn, so that the page does not flash in the other theme.
  const chosenTheme = remembered();
  if (chosenTheme === "dark" || chosenTheme === "light") root.dataset.theme = chosenTheme;

  const byId = (id) => document.getElementById(id);

  // Text only ever reaches the page as text nodes and attributes, never as markup.
  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };

  const state = () => new URLSearchParams(location.hash.slice(1));
  const keep = (changes) => {
    const now = [...state()].filter(([name, value]) => value && !(name in changes));
    const next = new URLSearchParams([...now, ...Object.entries(changes).filter(([, value]) => value)]);
    history.replaceState(null, "", next.size ? "#" + next : location.pathname + location.search);
  };

  function theme() {
    const button = byId("theme");
    const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const label = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
    button.hidden = false;
    button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; remember(root.dataset.theme); label(); });
    system.addEventListener("change", label);
    label();
  }

  function copying() {
    for (const button of document.querySelectorAll(".copy")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        const code = byId(button.dataset.copy);
        try {
          await navigator.clipboard.writeText(code.textContent);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(code);
          button.textContent = "Selected";
        }
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
    }
  }

  function findings() {
    const tools = byId("finding-tools");
    const all = [...document.querySelectorAll(".finding")];
    const show = (severity) => {
      for (const finding of all) finding.hidden = Boolean(severity) && finding.dataset.severity !== severity;
      if (tools) for (const b of tools.children) b.setAttribute("aria-pressed", String(b.dataset.severity === severity));
    };
    if (tools) {
      tools.hidden = false;
      tools.addEventListener("click", (event) => {
        const severity = event.target.dataset.severity;
        if (severity === undefined) return;
        show(severity);
        keep({ severity, finding: "" });
      });
    }
    return () => {
      const wanted = state();
      const target = all.find((finding) => finding.id === "finding=" + wanted.get("finding"));
      show(target ? "" : wanted.get("severity") || "");
      for (const finding of all) finding.classList.toggle("chosen", finding === target);
      if (target) { target.open = true; target.scrollIntoView({ block: "start" }); }
    };
  }

  const ROW = 60; // the height of a row in report.css
  const BEYOND = 8; // rows kept above and below what is seen
  const [SAFE, ERROR, LOCAL, ABSMAX, OVERFLOW, UNDERFLOW, TIME, KIND] = [0, 1, 2, 3, 4, 5, 6, 7];
  const SHOWN = ["FP16", "BF16", "TF32"];

  function layers() {
    const table = JSON.parse(byId("data").textContent);
    const text = (index) => table.texts[index];
    const value = (candidate, field) => (candidate.length ? text(candidate[field]) : "–");
    const figure = (shown) => { const x = parseFloat(shown.replace(/[,<]/g, "")); return Number.isNaN(x) ? Infinity : x; };
    const safety = (c) => (!c.length ? "not tried" : c[SAFE] === null ? "unknown" : c[SAFE] ? "safe" : "unsafe");
    const rows = table.module.map((module, i) => ({
      i, module, haystack: [module, text(table.type[i]), text(table.ops[i]), text(table.why[i])].join("\n").toLowerCase(),
    }));
    const view = byId("layer-view"), body = byId("layer-rows"), detail = byId("layer-detail");
    const search = byId("search"), precision = byId("precision"), unsafe = byId("unsafe"), found = byId("found");
    let shown = rows, chosen = null, sort = "order", descending = false, everything = false;
    byId("layer-table").hidden = false;

    const name = (i) => table.module[i] || "(root)";
    const place = (i) => (text(table.file[i]) ? text(table.file[i]) + (table.line[i] ? ":" + table.line[i] : "") : "");
    const format = (label) => el("span", { class: "format " + label.toLowerCase() }, label);
    const mark = (c) => {
      const word = safety(c), icon = { safe: "✔ ", unsafe: "✖ " }[word] || "";
      return [el("span", { class: "one " + word.replace(" ", "-") }, icon + word), el("span", { class: "note one" }, value(c, ERROR))];
    };

    function line(row, position) {
      const { i } = row, many = table.findings[i].length;
      const under = el("span", { class: "note one" }, text(table.type[i]) + (place(i) ? " · " + place(i).split("/").pop() : ""));
      const first = el("td", {}, el("button", { type: "button", title: name(i), "data-position": position, class: "one" }, el("bdi", {}, name(i))), under);
      if (many) under.prepend(el("span", { class: "flag" }, "⚑ " + many + (many > 1 ? " findings · " : " finding · ")));
      return el("tr", { "aria-rowindex": position + 2, class: row.module === chosen ? "chosen" : "" }, first,
        el("td", {}, format(text(table.precision[i]))),
        el("td", { class: "why note" }, el("span", { class: "two", title: text(table.why[i]) }, text(table.why[i]))),
        ...SHOWN.map((f) => el("td", {}, ...mark(table.candidates[f][i]))),
        el("td", { class: "n" }, value(table.candidates.FP32[i], TIME) + " µs"));
    }

    const spacer = (height) => { const tr = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: "7" })); tr.firstChild.style.height = height + "px"; return tr; };

    function draw() {
      const first = everything ? 0 : Math.max(Math.floor(view.scrollTop / ROW) - BEYOND, 0);
      const last = everything ? Math.min(shown.length, 1000) : Math.min(first + Math.ceil(view.clientHeight / ROW) + 2 * BEYOND, shown.length);
      const focused = body.contains(document.activeElement) ? document.activeElement.dataset.position : undefined;
      body.replaceChildren(spacer(first * ROW), ...shown.slice(first, last).map((row, k) => line(row, first + k)), spacer((shown.length - last) * ROW));
      if (focused !== undefined) body.querySelector(`[data-position="${Number(focused)}"]`)?.focus({ preventScroll: true });
    }

    function key(row) {
      if (sort === "order") return row.i;
      if (sort === "precision") return text(table.precision[row.i]);
      return sort === "time" ? figure(value(table.candidates.FP32[row.i], TIME)) : figure(value(table.candidates[sort][row.i], ERROR));
    }

    function filter() {
      const wanted = search.value.trim().toLowerCase();
      shown = rows.filter((row) => (!wanted || row.haystack.includes(wanted))
        && (!precision.value || text(table.precision[row.i]) === precision.value)
        && (!unsafe.value || table.candidates[unsafe.value][row.i][SAFE] === false)
        && (!found.checked || table.findings[row.i].length));
      const turn = descending ? -1 : 1;
      const keyed = shown.map((row) => [key(row), row]);
      keyed.sort(([a, x], [b, y]) => (a < b ? -turn : a > b ? turn : x.i - y.i));
      shown = keyed.map(([, row]) => row);
      byId("count").textContent = shown.length.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " layers";
      view.querySelector("table").setAttribute("aria-rowcount", shown.length + 1);
      for (const b of view.querySelectorAll("thead button")) {
        b.closest("th").setAttribute("aria-sort", b.dataset.sort !== sort ? "none" : descending ? "descending" : "ascending");
      }
      draw();
    }

    function tell() {
      const i = table.module.indexOf(chosen);
      detail.hidden = i < 0;
      if (i < 0) return;
      const head = ["", "Error", "Local error", "Largest value", "Overflow", "Underflow", "Time"];
      const numbers = Object.entries(table.candidates).filter(([, c]) => c[i].length).map(([f, of]) => {
        const c = of[i];
        return el("tr", {}, el("th", { scope: "row" }, f), el("td", {}, safety(c)), ...[ERROR, LOCAL, ABSMAX, OVERFLOW, UNDERFLOW].map((field) => el("td", { class: "n" }, value(c, field))),
          el("td", { class: "n" }, value(c, TIME) + " µs", " ", el("span", { class: "kind" }, value(c, KIND))));
      });
      const fact = (term, ...what) => el("div", {}, el("dt", {}, term), el("dd", {}, ...what));
      const links = table.findings[i].flatMap((id) => [el("a", { href: "#finding=" + encodeURIComponent(id) }, (byId("finding=" + id)?.querySelector(".title")?.textContent || id).trim()), " "]);
      detail.replaceChildren(
        el("h3", {}, el("code", {}, name(i)), " ", format(text(table.precision[i]))),
        el("p", {}, text(table.why[i])),
        el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Formats of " + name(i) },
          el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Format"), ...head.map((h, k) => el("th", { scope: "col", class: k ? "n" : "" }, h || "Verdict")))), el("tbody", {}, ...numbers))),
        el("dl", { class: "values" }, fact("type", text(table.type[i])), fact("source", place(i) || "–"), fact("ops", text(table.ops[i]) || "–"),
          fact("parameters", table.parameters[i]), fact("FLOPs, forward and backward", table.flops[i]), fact("findings", ...(links.length ? links : ["none"]))),
        el("p", { class: "note" }, "Local error is what this layer's own rounding adds; overflow and underflow are shares of its output values. ",
          el("a", { href: "#layer=" + encodeURIComponent(chosen) }, "Link to this layer")));
    }

    function choose(module) {
      chosen = module;
      keep({ layer: module ?? "", finding: "" });
      draw();
      tell();
    }

    function restore() {
      const wanted = state();
      search.value = wanted.get("q") || "";
      precision.value = wanted.get("precision") || "";
      unsafe.value = wanted.get("unsafe") || "";
      found.checked = wanted.get("found") === "1";
      [sort, descending] = wanted.get("sort")?.startsWith("-") ? [wanted.get("sort").slice(1), true] : [wanted.get("sort") || "order", false];
      if (![...view.querySelectorAll("thead button")].some((b) => b.dataset.sort === sort)) sort = "order";
      chosen = wanted.get("layer");
      filter();
      tell();
      const at = chosen === null ? -1 : shown.findIndex((row) => row.module === chosen);
      if (at >= 0) { view.scrollTop = Math.max(at * ROW - 2 * ROW, 0); draw(); byId("layer-table").scrollIntoView({ block: "start" }); }
    }

    const store = () => keep({ q: search.value, precision: precision.value, unsafe: unsafe.value, found: found.checked ? "1" : "", sort: sort === "order" && !descending ? "" : (descending ? "-" : "") + sort });
    for (const control of [search, precision, unsafe, found]) control.addEventListener("input", () => { view.scrollTop = 0; filter(); store(); });
    view.querySelector("thead").addEventListener("click", (event) => {
      const column = event.target.dataset.sort;
      if (!column) return;
      descending = column === sort ? !descending : column === "time" || SHOWN.includes(column);
      sort = column;
      view.scrollTop = 0;
      filter();
      store();
    });
    body.addEventListener("click", (event) => {
      const position = event.target.closest("tr")?.querySelector("button")?.dataset.position;
      if (position !== undefined) choose(shown[position].module);
    });
    body.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (!step || event.target.dataset.position === undefined) return;
      event.preventDefault();
      const next = Math.min(Math.max(Number(event.target.dataset.position) + step, 0), shown.length - 1);
      const top = next * ROW, height = view.clientHeight - 2 * ROW;
      if (top < view.scrollTop) view.scrollTop = top;
      if (top > view.scrollTop + height) view.scrollTop = top - height;
      draw();
      body.querySelector(`[data-position="${next}"]`)?.focus({ preventScroll: true });
    });
    view.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
    addEventListener("resize", draw);
    addEventListener("beforeprint", () => { everything = true; draw(); });
    addEventListener("afterprint", () => { everything = false; draw(); });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) return;
      event.preventDefault();
      search.focus();
    });
    return restore;
  }

  addEventListener("beforeprint", () => { for (const folded of document.querySelectorAll("details")) folded.open = true; });
  document.addEventListener("DOMContentLoaded", () => {
    theme();
    copying();
    const restorers = [layers(), findings()];
    const restore = () => restorers.forEach((of) => of());
    addEventListener("hashchange", restore);
    restore();
  });
})();
