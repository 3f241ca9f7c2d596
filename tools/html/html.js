"use strict";
(() => {
  const all = (what, at = document) => Array.from(at.querySelectorAll(what)), said = document.getElementById("said");
  const make = (name, where, text) => { const x = document.createElement(name); if (text) x.textContent = text; where.append(x); return x; };
  const say = text => { said.textContent = text; };
  const keep = { get: k => { try { return sessionStorage.getItem(location.pathname + k); } catch { return null; } }, set: (k, v) => { try { sessionStorage.setItem(location.pathname + k, v); } catch { } } };
  const amount = (unit, v) => {
    const a = Math.abs(v);
    if (unit === "bytes") { let u = 0; while (Math.abs(v) >= 999.5 && u < 6) { v /= 1000; u++; } return `${u ? v.toFixed(1) : v} ${["B", "kB", "MB", "GB", "TB", "PB", "EB"][u]}`; }
    if (unit === "ms") return a >= 1000 ? `${(v / 1000).toFixed(2)} s` : a && a < 1 ? `${(v * 1000).toFixed(a < .01 ? 2 : 1)} us` : `${v.toFixed(a < 10 ? 2 : 1)} ms`;
    return String(+v.toPrecision(6));
  };

  // Tables: sorted by the buttons in their heads, filtered by a word, shortened to the first rows.
  all("table.data").forEach((table, t) => {
    const body = table.tBodies[0], rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells), first = +table.dataset.shown;
    let word = "", open = rows.length <= first + 5;
    const value = (row, c) => { const x = row.cells[c]; return x.dataset.v === undefined ? x.textContent : +x.dataset.v; };
    const show = () => {
      let n = 0, found = 0;
      for (const row of body.rows) { const fits = !word || row.textContent.toLowerCase().includes(word); found += fits; row.hidden = !fits || (!open && ++n > first); }
      if (more) { more.textContent = open ? `Show the first ${first}` : `Show all ${found}`; more.setAttribute("aria-expanded", open); }
      return found;
    };
    const sort = (c, down) => {
      heads.forEach(h => h.removeAttribute("aria-sort"));
      heads[c].setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1, compare = (a, b) => typeof a === "number" && typeof b === "number" ? sign * (a - b) : a === "" || b === "" ? (a === "") - (b === "") : sign * String(a).localeCompare(String(b), undefined, { numeric: true });
      body.append(...rows.slice().sort((a, b) => compare(value(a, c), value(b, c))));
      show();
      keep.set(`sort${t}`, `${c} ${down ? 1 : 0}`);
    };
    let more = null;
    if (rows.length > 8) {
      const tools = document.createElement("div"), input = make("input", tools);
      tools.className = "tools";
      input.type = "search";
      input.placeholder = "Filter";
      input.setAttribute("aria-label", `Filter: ${table.caption.firstChild.textContent}`);
      input.addEventListener("input", () => { word = input.value.toLowerCase(); say(`${show()} rows`); });
      if (!open) { more = make("button", tools); more.type = "button"; more.addEventListener("click", () => { open = !open; show(); }); }
      table.parentNode.before(tools);
    }
    table.parentNode.setAttribute("aria-label", table.caption.firstChild.textContent);
    heads.forEach((h, c) => {
      const b = document.createElement("button");
      b.type = "button";
      b.textContent = h.textContent;
      h.replaceChildren(b);
      b.addEventListener("click", () => sort(c, h.getAttribute("aria-sort") ? h.getAttribute("aria-sort") !== "descending" : h.classList.contains("n")));
    });
    const was = keep.get(`sort${t}`);
    if (was && heads[+was.split(" ")[0]]) sort(...was.split(" ").map(Number)); else show();
  });

  // Lines: a cursor that pointer and arrow keys move, whose values are said.
  all("figure.line > svg").forEach(svg => {
    const [x0, x1] = svg.dataset.x.split(" ").map(Number), [y0, y1, log] = svg.dataset.y.split(" ").map(Number), [left, right, low, high] = svg.dataset.box.split(" ").map(Number), unit = svg.dataset.unit;
    const lines = all("polyline", svg).map(p => ({ name: p.dataset.name, at: Array.from(p.points).map(q => [q.x, q.y]) })).filter(l => l.at.length);
    const cursor = document.createElementNS(svg.namespaceURI, "path");
    cursor.setAttribute("class", "cursor");
    svg.append(cursor);
    const y = v => { const f = (low - v) / (low - high); return log ? 10 ** (Math.log10(y0) + f * Math.log10(y1 / y0)) : y0 + f * (y1 - y0); };
    let here = right;
    const move = at => {
      if (!lines.length) return;
      here = Math.min(right, Math.max(left, at));
      cursor.setAttribute("d", `M${here} ${high}V${low}`);
      const near = lines.map(l => { const p = l.at.reduce((a, b) => Math.abs(b[0] - here) < Math.abs(a[0] - here) ? b : a); return `${l.name} ${amount(unit, y(p[1]))}`; });
      say(`at ${+(x0 + (here - left) / (right - left) * (x1 - x0)).toPrecision(5)}: ${near.join(", ")}`);
    };
    svg.addEventListener("pointermove", e => { const r = svg.getBoundingClientRect(); move((e.clientX - r.left) / r.width * svg.viewBox.baseVal.width); });
    svg.addEventListener("keydown", e => { const step = { ArrowLeft: -5, ArrowRight: 5, PageUp: -60, PageDown: 60, Home: -1e6, End: 1e6 }[e.key]; if (step) { move(here + step); e.preventDefault(); } });
  });

  // Timelines: + and -, arrows, wheel with Ctrl; spans are said.
  all(".lanes svg").forEach(svg => {
    const full = svg.viewBox.baseVal.width, time = +svg.dataset.time, unit = svg.dataset.unit, marks = all(".scale span", svg.parentNode);
    let from = 0, width = full;
    const set = (f, w) => {
      width = Math.min(full, Math.max(full / 1e4, w));
      from = Math.min(full - width, Math.max(0, f));
      svg.viewBox.baseVal.x = from;
      svg.viewBox.baseVal.width = width;
      marks.forEach((m, k) => { m.textContent = amount(unit, (from + width * k / (marks.length - 1)) / full * time); });
      say(`from ${marks[0].textContent} to ${marks[marks.length - 1].textContent}`);
    };
    const zoom = (f, at = .5) => set(from + width * at * (1 - f), width * f);
    const keys = { "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), "0": () => set(0, full), ArrowLeft: () => set(from - width / 5, width), ArrowRight: () => set(from + width / 5, width) };
    svg.addEventListener("keydown", e => { if (keys[e.key] && !e.ctrlKey && !e.metaKey) { keys[e.key](); e.preventDefault(); } });
    svg.addEventListener("wheel", e => { if (!e.ctrlKey) return; const r = svg.getBoundingClientRect(); zoom(e.deltaY > 0 ? 1.25 : .8, (e.clientX - r.left) / r.width); e.preventDefault(); }, { passive: false });
    const tools = document.createElement("div");
    tools.className = "tools";
    [["Zoom in", "+"], ["Zoom out", "-"], ["Earlier", "ArrowLeft"], ["Later", "ArrowRight"], ["All", "0"]].forEach(([text, key]) => { const b = make("button", tools, text); b.type = "button"; b.addEventListener("click", keys[key]); });
    svg.closest(".lanes").before(tools);
  });
  all("svg").forEach(svg => svg.addEventListener("pointerover", e => { const t = e.target.closest("rect, circle, .box"), title = t && t.querySelector("title"); if (title) say(title.textContent); }));

  // A run under way: the page is read again, unless it is being read.
  const live = +document.body.dataset.live;
  if (live) {
    const state = document.getElementById("live"), pause = make("button", state);
    let paused = keep.get("paused") === "1";
    const tell = () => { pause.textContent = paused ? "Follow it again" : "Hold this page"; keep.set("paused", paused ? 1 : 0); };
    pause.type = "button";
    pause.addEventListener("click", () => { paused = !paused; tell(); });
    state.append(" ", pause);
    tell();
    scrollTo(0, +keep.get("top") || 0);
    setInterval(() => { if (!paused) { keep.set("top", scrollY); location.reload(); } }, 1000 * Math.max(1, live));
  }
})();
