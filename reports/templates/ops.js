
"use strict";
// The table of ops: only the rows in sight are in the page, however many there are.
document.addEventListener("DOMContentLoaded", () => {
  const source = document.getElementById("op-data");
  if (!source) return;
  const byId = (id) => document.getElementById(id);
  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const ROW = 44, BEYOND = 10;
  const NUMBERS = ["fp16_error", "fp16_local", "bf16_error", "absmax", "flops"];
  const table = JSON.parse(source.textContent);
  const total = table.op.length;
  const said = (column, i) => table.texts[table[column][i]];
  const haystack = Array.from({ length: total }, (_, i) => [said("op", i), said("module", i), said("file", i)].join("\n").toLowerCase());
  const view = byId("op-view"), body = byId("op-rows"), search = byId("op-search"), family = byId("op-family"), phase = byId("op-phase");
  let shown = [...haystack.keys()], sort = "row", descending = false, printing = false;

  for (const [select, column] of [[family, "family"], [phase, "phase"]]) {
    const counts = new Map();
    for (const index of table[column]) counts.set(index, (counts.get(index) || 0) + 1);
    for (const [index, amount] of [...counts].sort((a, b) => b[1] - a[1])) select.append(el("option", { value: table.texts[index] }, `${table.texts[index]} (${amount.toLocaleString("en")})`));
  }

  const figure = (value) => (value === null ? Infinity : value === "Infinity" || value === "NaN" ? Number.MAX_VALUE : value);
  const percent = (value) => {
    if (value === null) return "–";
    if (typeof value === "string") return "non-finite";
    if (value === 0) return "0 %";
    if (value < 1e-6) return "<0.0001 %";
    return (100 * value >= 99.5 ? Math.round(100 * value).toLocaleString("en") : (100 * value).toPrecision(2).replace(/e.*/, "")) + " %";
  };
  const plain = (value) => (value === null ? "–" : typeof value === "string" ? value : Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : value.toLocaleString("en", { maximumSignificantDigits: 4 }));
  const words = { fp16_error: percent, fp16_local: percent, bf16_error: percent, absmax: plain, flops: plain };

  function line(i, position) {
    const file = said("file", i), line = table.line[i];
    const place = file ? file.split("/").pop() + (line ? ":" + line : "") : "";
    return el("tr", { "aria-rowindex": position + 2 },
      el("td", {}, el("code", { class: "one", title: said("op", i) }, said("op", i)), el("span", { class: "note one", title: file }, said("phase", i) + " · " + said("family", i) + (place ? " · " + place : ""))),
      el("td", {}, el("a", { class: "one", href: "#layer=" + encodeURIComponent(said("module", i)), title: said("module", i) }, said("module", i) || "(root)")),
      ...NUMBERS.map((column) => el("td", { class: "n" }, words[column](table[column][i]))));
  }
  const spacer = (height) => { const row = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: "7" })); row.firstChild.style.height = height + "px"; return row; };
  function draw() {
    const first = printing ? 0 : Math.max(Math.floor(view.scrollTop / ROW) - BEYOND, 0);
    const last = printing ? Math.min(shown.length, 200) : Math.min(first + Math.ceil(view.clientHeight / ROW) + 2 * BEYOND, shown.length);
    body.replaceChildren(spacer(first * ROW), ...shown.slice(first, last).map((i, k) => line(i, first + k)), spacer(printing ? 0 : (shown.length - last) * ROW));
  }

  function filter() {
    const wanted = search.value.trim().toLowerCase();
    shown = [];
    for (let i = 0; i < total; i++) {
      if ((!wanted || haystack[i].includes(wanted)) && (!family.value || said("family", i) === family.value) && (!phase.value || said("phase", i) === phase.value)) shown.push(i);
    }
    if (sort !== "row" || descending) {
      const turn = descending ? -1 : 1;
      const key = sort === "row" ? (i) => i : sort === "module" ? (i) => said("module", i) : (i) => figure(table[sort][i]);
      const unknown = (i) => sort in table && sort !== "module" && table[sort][i] === null;
      const keyed = shown.map((i) => [unknown(i), key(i), i]);
      keyed.sort(([u, a, x], [v, b, y]) => (u !== v ? (u ? 1 : -1) : a < b ? -turn : a > b ? turn : x - y));
      shown = keyed.map(([, , i]) => i);
    }
    byId("op-count").textContent = `${shown.length.toLocaleString("en")} of ${total.toLocaleString("en")} ops`;
    view.querySelector("table").setAttribute("aria-rowcount", String(shown.length + 1));
    for (const head of view.querySelectorAll("th")) head.setAttribute("aria-sort", head.firstElementChild.dataset.opSort === sort ? (descending ? "descending" : "ascending") : "none");
    draw();
  }

  const state = () => new URLSearchParams(location.hash.slice(1));
  function store() {
    const mine = { opq: search.value, family: family.value, phase: phase.value, opsort: sort === "row" && !descending ? "" : (descending ? "-" : "") + sort };
    const next = new URLSearchParams([...[...state()].filter(([name, value]) => value && !(name in mine)), ...Object.entries(mine).filter(([, value]) => value)]);
    history.replaceState(null, "", next.size ? "#" + next : location.pathname + location.search);
  }
  function restore() {
    const wanted = state();
    search.value = wanted.get("opq") || "";
    family.value = wanted.get("family") || "";
    phase.value = wanted.get("phase") || "";
    const order = wanted.get("opsort") || "row";
    descending = order.startsWith("-");
    sort = order.replace("-", "");
    if (![...view.querySelectorAll("thead button")].some((b) => b.dataset.opSort === sort)) sort = "row";
    filter();
  }

  function save(name, type, text) {
    const link = el("a", { href: `data:${type};charset=utf-8,` + encodeURIComponent(text), download: name });
    link.click();
  }
  const COLUMNS = ["op", "family", "phase", "module", "file", "line", ...NUMBERS];
  const cell = (column, i) => (column in words || column === "line" ? table[column][i] : said(column, i));
  const quoted = (value) => { const text = value === null ? "" : String(value); return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : /^[=+@\t-]/.test(text) && typeof value === "string" ? "'" + text : text; };
  byId("op-csv").addEventListener("click", () => save("ops.csv", "text/csv", [COLUMNS.join(","), ...shown.map((i) => COLUMNS.map((c) => quoted(cell(c, i))).join(","))].join("\r\n")));
  byId("op-json").addEventListener("click", () => save("ops.json", "application/json", JSON.stringify(shown.map((i) => Object.fromEntries(COLUMNS.map((c) => [c, cell(c, i)]))))));

  for (const control of [search, family, phase]) control.addEventListener("input", () => { view.scrollTop = 0; filter(); store(); });
  view.querySelector("thead").addEventListener("click", (event) => {
    const column = event.target.dataset.opSort;
    if (!column) return;
    descending = column === sort ? !descending : NUMBERS.includes(column);
    sort = column;
    view.scrollTop = 0;
    filter();
    store();
  });
  view.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  addEventListener("resize", draw);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  addEventListener("hashchange", restore);
  byId("op-table").hidden = false;
  restore();
});

// The loss-scale window over the gradients: every position and word was made when the report was written.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("scale-try");
  if (!box) return;
  const points = JSON.parse(document.getElementById("scale-points").content.textContent);
  const pick = document.getElementById("scale-pick"), said = document.getElementById("scale-said");
  const place = (id, [at, width]) => { const rect = document.getElementById(id); rect.setAttribute("x", at + "%"); rect.setAttribute("width", width + "%"); };
  const show = () => {
    const point = points[pick.value];
    place("scale-normal", point.normal);
    place("scale-subnormal", point.subnormal);
    said.textContent = point.words;
    pick.setAttribute("aria-valuetext", point.words);
  };
  pick.addEventListener("input", show);
  box.hidden = false;
  show();
});
