"use strict";
// Text from runs reaches the page by textContent only. The policy of the page forbids everything else.
(() => {
  const root = document.body.dataset.root || "";
  const find = (id) => document.getElementById(id);
  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text !== undefined && text !== null) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const load = async (path) => {
    const answer = await fetch(root + path);
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  };
  const hash = () => new URLSearchParams(location.hash.slice(1));
  const minus = (text) => text.replace("-", "−");
  const percent = (log, digits = 2) => log === null ? "–" : minus(`${log > 0 ? "+" : ""}${(100 * Math.expm1(log)).toFixed(digits)} %`);
  const when = (seconds) => new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 16) + " UTC";
  const colors = (names) => { // one element for all, so that the page is laid out once
    const probes = make("span");
    probes.append(...names.map((name) => { const probe = make("i"); probe.style.color = `var(--${name})`; return probe; }));
    document.body.append(probes);
    const found = Object.fromEntries(names.map((name, index) => [name, getComputedStyle(probes.children[index]).color]));
    probes.remove();
    return found;
  };
  const OUTCOMES = ["PASS", "WAIVED", "INCONCLUSIVE", "FAIL"];
  const MOST_EPOCHS = 40;
  const COLORS = { 1: "waived", 2: "unsure", 3: "bad" };

  // The theme: system, light or dark.
  const redraws = [];
  const themes = ["system", "light", "dark"];
  const button = find("theme");
  let theme = document.documentElement.dataset.theme || "system";
  const say = () => { button.textContent = `Theme: ${theme}`; };
  button.hidden = false;
  say();
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("theme", theme); } catch { /* only this page keeps it */ }
    say();
    redraws.forEach((redraw) => redraw());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));

  // A workload over commits.
  const chart = find("chart");
  if (chart) load(chart.dataset.src.replace("../", "")).then(draw).catch((error) => {
    find("point").textContent = `The chart's data did not load (${error.message}). Open this page from a web server. The tables have the newest points.`;
  });

  function draw(data) {
    const count = data.run.length;
    const names = { ratio: "ratio to the anchor, %", value: data.unit, ms: "ms", mhz: "MHz" };
    const status = find("point");
    let metric = chart.dataset.metric, plot = null, selected = null, palette = {};
    const epochs = data.epoch.map((epoch, index) => index && epoch !== data.epoch[index - 1] ? index : 0).filter(Boolean);
    const level = (index) => metric === "ratio" ? scale(data.ratio[index]) : data[metric][index];
    const scale = (millionths) => millionths === null ? null : 100 * Math.expm1(millionths / 1e6);
    const side = (sign) => data.ratio.map((ratio, index) => ratio === null ? null : scale(ratio + sign * 1.96 * (data.error[index] || 0)));

    const columns = () => {
      const xs = data.run.map((_, index) => index);
      const ys = xs.map(level);
      return metric === "ratio" ? [xs, ys, side(-1), side(1)] : [xs, ys];
    };
    const padded = (plotted, low, high) => {
      if (low === null) return [0, 1];
      const least = metric === "ratio" ? 1 : 0.01 * Math.abs(high || 1);
      const spread = Math.max(high - low, least) * 1.15, middle = (low + high) / 2;
      return [middle - spread / 2, middle + spread / 2];
    };
    const vertical = (context, box, x, style, dash) => {
      context.strokeStyle = style;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(x, box.top);
      context.lineTo(x, box.top + box.height);
      context.stroke();
      context.setLineDash([]);
    };
    const paint = (u) => {
      const context = u.ctx, box = u.bbox, ratio = devicePixelRatio || 1;
      const at = (index) => u.valToPos(index, "x", true);
      const isInside = (x) => x >= box.left && x <= box.left + box.width;
      context.save();
      context.lineWidth = ratio;
      context.textAlign = "left";
      context.font = `${11 * ratio}px system-ui, sans-serif`;
      const begun = epochs.map((index) => [index, (at(index) + at(index - 1)) / 2]).filter(([, x]) => isInside(x));
      let free = 0;
      if (begun.length <= MOST_EPOCHS) for (const [index, x] of begun) { // machines that take turns would fill the chart
        vertical(context, box, x, palette.soft, [2 * ratio, 3 * ratio]);
        context.fillStyle = palette.soft;
        const name = `epoch ${data.epoch[index] + 1}`;
        if (x < free || x + context.measureText(name).width > box.left + box.width) continue;
        context.fillText(name, x + 4 * ratio, box.top + box.height - 8 * ratio);
        free = x + context.measureText(name).width + 10 * ratio;
      }
      context.fillStyle = palette.head;
      for (let index = 1; index < count; index++) {
        if (data.code[index] !== data.code[index - 1] && isInside(at(index))) context.fillRect(at(index) - ratio, box.top + box.height - 4 * ratio, 2 * ratio, 4 * ratio);
      }
      const rows = [], most = Math.floor(box.height / (28 * ratio)); // rows of labels
      for (const alert of data.alerts) {
        const x = at(alert.at);
        if (!isInside(x)) continue;
        const style = palette[alert.ratio > 0 ? "bad" : "good"];
        vertical(context, box, x, style, [5 * ratio, 4 * ratio]);
        context.fillStyle = style;
        const text = `${alert.key} ${alert.state}`, { width } = context.measureText(text);
        const left = x > box.left + box.width / 2 ? x - width - 5 * ratio : x + 5 * ratio;
        let row = 0;
        while (rows[row]?.some((other) => Math.abs(other.left + other.width / 2 - left - width / 2) < (other.width + width) / 2)) row++;
        if (row >= most) continue; // the table names it
        (rows[row] ??= []).push({ left, width });
        context.fillText(text, left, box.top + (12 + 14 * row) * ratio);
      }
      for (let index = 0; index < count; index++) {
        const y = level(index), outcome = Number(data.outcome[index]);
        if (y === null || !isInside(at(index)) || (!outcome && index !== selected)) continue;
        context.lineWidth = 2 * ratio;
        context.strokeStyle = palette[index === selected ? "ink" : COLORS[outcome]];
        context.beginPath();
        context.arc(at(index), u.valToPos(y, "y", true), (index === selected ? 6 : 4) * ratio, 0, 7);
        context.stroke();
      }
      context.restore();
    };
    const dates = (u, splits) => splits.map((index) => Number.isInteger(index) && data.day[index] ? when(data.day[index]).slice(0, 10) : "");
    const build = () => {
      const kept = plot ? [plot.scales.x.min, plot.scales.x.max] : null;
      if (plot) plot.destroy();
      palette = colors(["ink", "soft", "head", "grid", "band", "bad", "good", "unsure", "waived"]);
      const axis = { stroke: palette.soft, grid: { stroke: palette.grid, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      const thin = { show: true, stroke: "transparent", points: { show: false } };
      const main = { stroke: palette.head, width: 1.5, points: { show: count < 120, size: 6, fill: palette.head } };
      plot = new uPlot({
        width: chart.clientWidth, height: chart.clientHeight, legend: { show: false },
        padding: [null, 40, null, null],
        scales: { x: { time: false }, y: { range: padded } },
        axes: [{ ...axis, values: dates, space: 100, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] }, { ...axis, size: 64, label: names[metric], labelSize: 20, labelFont: "12px system-ui, sans-serif" }],
        series: metric === "ratio" ? [{}, main, thin, thin] : [{}, main],
        bands: metric === "ratio" ? [{ series: [3, 2], fill: palette.band }] : [],
        cursor: { y: false, drag: { x: true, y: false }, points: { size: 8 } },
        hooks: { draw: [paint] },
      }, columns(), chart);
      if (kept && kept[0] !== null) plot.setScale("x", { min: kept[0], max: kept[1] });
    };
    const range = (newest) => plot.setScale("x", { min: newest ? Math.max(0, count - newest) : 0, max: Math.max(count - 1, 1) });
    const choose = (index, { quiet = false } = {}) => {
      selected = Math.max(0, Math.min(count - 1, index));
      const value = level(selected), error = data.error[selected];
      const shown = value === null ? "not measured" : metric === "ratio"
        ? `${minus(value.toFixed(2))} % ± ${error === null ? "0, equal code" : (196 * error / 1e6).toFixed(2)}` : `${value} ${names[metric]}`;
      const isNew = selected > 0 && data.code[selected] !== data.code[selected - 1];
      status.textContent = `${data.commit[selected] || "no commit"}, ${when(data.at[selected])}: ${shown}, ${OUTCOMES[data.outcome[selected]]}${isNew ? ", new code" : ""}. ${data.epochs[data.epoch[selected]]}. `;
      status.append(make("a", "Open the run", { href: `${root}compare.html#a=${data.run[selected]}` }));
      if (selected > 0) status.append(", ", make("a", "next to the run before", { href: `${root}compare.html#a=${data.run[selected - 1]}&b=${data.run[selected]}` }));
      if (!quiet) history.replaceState(null, "", `#run=${data.run[selected]}`);
      const { min, max } = plot.scales.x; // not set before the first drawing, which shows all
      if (min !== null && min !== undefined && (selected < min || selected > max)) plot.setScale("x", { min: Math.max(0, selected - 25), max: Math.min(Math.max(count - 1, 1), selected + 25) });
      plot.redraw(false); // keeps the scales, which a new chart does not have yet
    };
    const follow = () => {
      const wanted = hash().get("run");
      const index = wanted ? data.run.findIndex((digest) => wanted.startsWith(digest) || digest.startsWith(wanted)) : -1;
      if (index >= 0) choose(index, { quiet: true });
      else if (wanted) status.textContent = `This chart has no point of run ${wanted.replace(/[^0-9a-f]/g, "").slice(0, 12)}.`;
    };
    build();
    redraws.push(build);
    chart.addEventListener("click", () => { if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) choose(plot.cursor.idx); });
    chart.addEventListener("keydown", (event) => {
      const now = selected === null ? count : selected;
      const steps = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 10, PageDown: now + 10, Home: 0, End: count - 1 };
      if (event.key in steps) { choose(steps[event.key]); event.preventDefault(); }
      if (event.key === "Enter" && selected !== null) location.href = `${root}compare.html#a=${data.run[selected]}`;
    });
    document.querySelectorAll("[data-metric]:not(#chart)").forEach((element) => element.addEventListener("click", () => {
      metric = element.dataset.metric;
      document.querySelectorAll("[data-metric]:not(#chart)").forEach((other) => other.setAttribute("aria-pressed", String(other === element)));
      build();
      if (selected !== null) choose(selected);
    }));
    document.querySelectorAll("[data-newest]").forEach((element) => element.addEventListener("click", () => {
      document.querySelectorAll("[data-newest]").forEach((other) => other.setAttribute("aria-pressed", String(other === element)));
      range(Number(element.dataset.newest));
    }));
    new ResizeObserver(() => plot.setSize({ width: chart.clientWidth, height: chart.clientHeight })).observe(chart);
    addEventListener("hashchange", follow);
    follow();
  }

  // Two runs side by side.
  const comparison = find("comparison");
  if (comparison) load("data/runs.json").then(compare).catch((error) => {
    find("compared").textContent = `The list of runs did not load (${error.message}). Open this page from a web server.`;
  });

  async function compare(runs) {
    const sides = ["a", "b"];
    for (const side of sides) {
      const select = find(`run-${side}`);
      select.append(make("option", side === "a" ? "Choose a run" : "None", { value: "" }));
      for (const [digest, commit, at, outcome, suite] of runs) select.append(make("option", `${when(at)}  ${commit || "no commit"}  ${outcome}  ${suite}`, { value: digest }));
      select.addEventListener("change", () => {
        const values = sides.map((name) => [name, find(`run-${name}`).value]).filter(([, value]) => value);
        location.hash = new URLSearchParams(values).toString();
      });
    }
    const show = async () => {
      const given = hash();
      const wanted = sides.map((side) => (given.get(side) || "").toLowerCase().replace(/[^0-9a-f]/g, "").slice(0, 12));
      wanted.forEach((digest, index) => { find(`run-${sides[index]}`).value = runs.some(([known]) => known === digest) ? digest : ""; });
      comparison.replaceChildren();
      const found = await Promise.all(wanted.map((digest) => digest ? load(`data/run/${digest}.json`).catch(() => null) : null));
      const missing = wanted.filter((digest, index) => digest && !found[index]);
      find("compared").textContent = missing.length ? `This site keeps the details of its newest runs only, not of ${missing.join(" and ")}.`
        : found[0] ? `${found.filter(Boolean).map((run) => `${run.points.length} workloads`).join(" next to ")}.` : "Choose a run. The address keeps the choice.";
      if (found[0]) comparison.append(...tables(found[0], found[1]));
    };
    addEventListener("hashchange", show);
    await show();
  }

  function table(title, head, rows, numeric = []) {
    const box = make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${title}` });
    const grid = make("table"), top = make("thead"), body = make("tbody"), line = make("tr");
    head.forEach((name, index) => line.append(make("th", name, { scope: "col", class: numeric.includes(index) ? "num" : "" })));
    top.append(line);
    for (const cells of rows) {
      const row = make("tr");
      cells.forEach((cell, index) => {
        const element = make(index ? "td" : "th", null, index ? { class: numeric.includes(index) ? "num" : "" } : { scope: "row" });
        element.append(cell instanceof Node ? cell : cell ?? "–");
        row.append(element);
      });
      body.append(row);
    }
    grid.append(top, body);
    box.append(grid);
    return [make("h2", title), box];
  }

  function folded(title, parts) {
    const details = make("details");
    details.append(make("summary", title), ...parts);
    return details;
  }

  function tables(first, second) {
    const runs = second ? [first, second] : [first];
    const number = (value, unit) => value === null || value === undefined ? "–" : `${Number(value.toPrecision(4))} ${unit}`;
    const others = new Map((second ? second.points : []).map((point) => [point[0], point]));
    const keys = new Set(first.points.map((point) => point[0]));
    const both = [...first.points.map((point) => [point, others.get(point[0])]), ...(second ? second.points.filter((point) => !keys.has(point[0])).map((point) => [null, point]) : [])];
    const change = ([a, b]) => a && b && a[3] > 0 && b[3] > 0 ? Math.log(b[3] / a[3]) : null;
    both.sort((x, y) => Math.abs(change(y) ?? 0) - Math.abs(change(x) ?? 0));
    const rows = (pairs) => pairs.map(([a, b]) => {
      const known = a || b;
      const link = make("a", known[1], { href: `${root}w/${known[0]}.html`, class: "mono" });
      const verdict = (point) => make("span", point ? point[6] : "–", { class: point ? point[6] : "" });
      const values = (point) => [number(point?.[3], known[2]), percent(point?.[5] ?? null), verdict(point)];
      return second ? [link, number(a?.[3], known[2]), number(b?.[3], known[2]), percent(change([a, b])), verdict(a), verdict(b)] : [link, ...values(a)];
    });
    const head = second ? ["Workload", "Run A", "Run B", "B against A", "Verdict A", "Verdict B"] : ["Workload", "Value", "To the anchor", "Verdict"];
    const side = (pairs) => { const maps = pairs.map((list) => new Map(list)); return [...new Set(maps.flatMap((map) => [...map.keys()]))].map((name) => [name, ...maps.map((map) => map.get(name))]); };
    const tools = side(runs.map((run) => run.tools)).filter(([, a, b]) => !second || a !== b);
    const columns = second ? ["Run A", "Run B"] : ["Run A"];
    const note = second ? [make("p", "Values of two sittings: another GPU or driver moves them. The ratio to the anchor does not.", { class: "soft" })] : [];
    const red = runs.flatMap((run, index) => run.verdicts.map(([gate, target, outcome, code, message]) => [columns[index], make("span", gate, { class: "mono" }), make("span", target, { class: "mono" }), make("span", outcome, { class: outcome }), code, make("span", message, { class: "long" })]));
    return [
      ...table("About", ["", ...columns], side(runs.map((run) => run.about))),
      ...table(second ? "Workloads of both runs" : "Workloads", head, rows(both.filter(([a, b]) => !second || (a && b))), second ? [1, 2, 3] : [1, 2]), ...note,
      ...[["A", ([, b]) => !b], ["B", ([a]) => !a]].map(([name, isAlone]) => [name, second ? both.filter(isAlone) : []]).filter(([, alone]) => alone.length)
        .map(([name, alone]) => folded(`${alone.length} ${alone.length === 1 ? "workload" : "workloads"} only in run ${name}`, table(`Workloads of run ${name}`, head, rows(alone), [1, 2, 3]))),
      ...(red.length ? table("Checks that did not pass", ["Run", "Gate", "Target", "Verdict", "Reason", "Message"], red) : []),
      ...(tools.length ? table(second ? "Tools that differ" : "Tools", ["Tool", ...columns], tools) : []),
    ];
  }

  // Cost: the reader's price and calls.
  const price = find("price"), calls = find("calls");
  if (price && calls) {
    const dollars = (amount) => `${amount < 0 ? "−" : ""}$${Math.abs(amount).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
    const update = () => document.querySelectorAll("[data-cost]").forEach((element) => {
      const { ms, change, cost } = element.dataset;
      const million = Number(ms) * 1e6 / 3.6e6 * Math.max(0, Number(price.value) || 0), day = million * Math.max(0, Number(calls.value) || 0);
      element.textContent = dollars({ million, day, extra: day * -Math.expm1(-Number(change)) }[cost]);
    });
    const given = hash();
    if (Number(given.get("price")) > 0) price.value = String(Number(given.get("price")));
    if (Number(given.get("calls")) > 0) calls.value = String(Number(given.get("calls")));
    for (const input of [price, calls]) input.addEventListener("input", () => { update(); history.replaceState(null, "", `#price=${Number(price.value) || 0}&calls=${Number(calls.value) || 0}`); });
    update();
  }
})();
