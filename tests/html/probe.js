// Runs in a report, in a browser: what the script made, and what keys do.
const t = performance.getEntriesByType("navigation")[0];
report("loaded_in_time", t.loadEventEnd - t.startTime < 2000);
report("fits", document.documentElement.scrollWidth <= document.documentElement.clientWidth);
const ink = getComputedStyle(document.body).color.match(/\d+/g).map(Number), paper = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
report("dark", paper[0] < 64);
report("contrast", Math.abs(ink[0] - paper[0]) > 150);
report("answers", document.querySelectorAll(".answer .value").length >= 3);
const table = document.querySelector("table.data"), head = table.tHead.rows[0].cells, body = table.tBodies[0];
report("buttons", Array.from(document.querySelectorAll("table.data th")).every(h => h.querySelector("button")));
const numbers = c => Array.from(body.rows).map(r => r.cells[c].dataset.v).filter(v => v !== undefined).map(Number);
const column = Array.from(head).findIndex(h => h.classList.contains("n"));
head[column].querySelector("button").click();
report("descending", numbers(column).every((v, i, a) => !i || a[i - 1] >= v) && head[column].getAttribute("aria-sort") === "descending");
head[column].querySelector("button").click();
report("ascending", numbers(column).every((v, i, a) => !i || a[i - 1] <= v) && head[column].getAttribute("aria-sort") === "ascending");
const input = document.querySelector(".tools input");
if (input) {
  const own = input.parentNode.nextElementSibling.querySelector("table").tBodies[0];
  input.value = "no such row";
  input.dispatchEvent(new Event("input"));
  report("filter", Array.from(own.rows).every(r => r.hidden));
  input.value = "";
  input.dispatchEvent(new Event("input"));
  report("unfilter", Array.from(own.rows).some(r => !r.hidden));
}
const press = (where, key) => where.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })), said = document.getElementById("said");
const lanes = document.querySelector(".lanes svg");
if (lanes) {
  const all = lanes.viewBox.baseVal.width;
  press(lanes, "+");
  report("zoom", lanes.viewBox.baseVal.width === all / 2 && said.textContent.startsWith("from "));
  press(lanes, "0");
  report("unzoom", lanes.viewBox.baseVal.width === all);
}
const line = document.querySelector("figure.line > svg");
if (line) {
  press(line, "ArrowLeft");
  report("cursor", /^at \S+: \S+/.test(said.textContent));
}
report("focus", Array.from(document.querySelectorAll("svg[role=img], .scroll")).every(x => x.tabIndex === 0 && x.getAttribute("aria-label")));
report("titles", Array.from(document.querySelectorAll(".lanes rect, .block, .dot, g.box")).every(x => x.querySelector("title").textContent));
report("live", document.getElementById("live") !== null);
