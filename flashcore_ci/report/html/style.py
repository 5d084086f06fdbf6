"""Hold the page's only style sheet. Its digest is in the content security policy."""

from __future__ import annotations

CSS = """
:root {
  color-scheme: light dark; --page: light-dark(#ffffff, #14171c); --sheet: light-dark(#f6f7f9, #1c2027);
  --ink: light-dark(#1b1f24, #e3e7ec); --soft: light-dark(#57606a, #a0a9b4);
  --line: light-dark(#d5dae0, #363c46); --grid: light-dark(#e6e9ed, #2a2f38);
  --good: light-dark(#1a6b35, #62c983); --bad: light-dark(#b42318, #ff8a7d);
  --unsure: light-dark(#8a5300, #e8b04b); --waived: light-dark(#0b6470, #63c5d3);
  --head: light-dark(#0b5cad, #6cb2f5); --base: light-dark(#7a6a00, #d1bd4a);
  --fill: light-dark(#cfe0f3, #24405c); --advisory: light-dark(#7a3eb1, #c79bf2);
  --pass: light-dark(#e3f3e8, #14301e);
}
:root:has(#light:checked) { color-scheme: light; } :root:has(#dark:checked) { color-scheme: dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; } a { color: var(--head); }
a:focus-visible, summary:focus-visible, input:focus-visible, [tabindex]:focus-visible { outline: 3px solid var(--head); outline-offset: 2px; }
.skip { position: absolute; left: -9999px; }
.skip:focus { left: 8px; top: 8px; padding: 6px 10px; background: var(--page); z-index: 9; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
h1 { font-size: 26px; line-height: 1.25; margin: 6px 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 40px 0 10px; padding-top: 10px; border-top: 1px solid var(--line); }
h3 { font-size: 16px; margin: 22px 0 6px; overflow-wrap: anywhere; }
h4 { font-size: 13px; margin: 0 0 4px; font-weight: 600; } p { margin: 6px 0; overflow-wrap: anywhere; }
code, pre, .mono { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12.5px; }
.soft { color: var(--soft); } .small { font-size: 13px; }
.verdict { margin-top: 20px; padding: 16px 20px; border-left: 8px solid; background: var(--sheet); border-radius: 4px; }
.badge { display: inline-block; padding: 1px 9px; border: 2px solid; border-radius: 4px; font-weight: 700; font-size: 13px; letter-spacing: .03em; }
.PASS { color: var(--good); } .FAIL { color: var(--bad); } .INCONCLUSIVE { color: var(--unsure); }
.WAIVED { color: var(--waived); } .advisory { color: var(--advisory); } .aside { color: var(--soft); border-color: var(--line); }
.verdict h1, .verdict p { color: var(--ink); }
.verdict.PASS { background: var(--pass); } .verdict.PASS h1, .kinds .PASS { color: var(--good); }
.kinds { display: flex; flex-wrap: wrap; gap: 2px 22px; list-style: none; margin: 8px 0 0; padding: 0; }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 14px 0 0; align-items: baseline; }
fieldset { border: 0; padding: 0; margin: 0 0 0 auto; display: flex; gap: 10px; font-size: 13px; color: var(--soft); }
legend { float: left; padding: 0 10px 0 0; } .scroll { overflow-x: auto; position: relative; }
table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 4px 10px 4px 0; text-align: left; vertical-align: top; } th { font-weight: 600; }
td.num, th.num { text-align: right; font-variant-numeric: tabular-nums; }
.list td, .list th { border-bottom: 1px solid var(--grid); } .list td { overflow-wrap: anywhere; }
.scroll + p { margin-top: 22px; } .reds td:not(:last-child) { white-space: nowrap; }
.reds td:last-child { min-width: 260px; } .matrix { font-size: 12px; } .matrix .mono { font-size: 12px; }
.matrix th, .matrix td { border-bottom: 1px solid var(--grid); padding: 3px 4px; }
.matrix thead th { text-align: center; vertical-align: bottom; }
.matrix thead th:first-child { text-align: left; padding-left: 0; }
.matrix tbody th { font-weight: 400; overflow-wrap: anywhere; min-width: 250px; position: sticky; left: 0; background: var(--page); padding-left: 0; }
.matrix td { text-align: center; white-space: nowrap; font-variant-numeric: tabular-nums; min-width: 50px; }
.matrix td b { font-size: 13px; } .matrix td.PASS span, .matrix td.advisory span { color: var(--ink); }
.matrix i { display: block; width: 48px; height: 3px; margin: 1px auto 0; background: var(--grid); }
.matrix i::before { content: ""; display: block; height: 3px; background: var(--soft); width: 0; }
.matrix i.near::before { background: var(--unsure); } .matrix i.over::before { background: var(--bad); }
.matrix td.advisory i::before { background: var(--advisory); } main:has(#reds:checked) .calm { display: none; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; margin: 6px 0; }
.filter { font-size: 14px; } details { margin: 8px 0; } summary { cursor: pointer; }
.panel { border: 1px solid var(--line); border-radius: 6px; padding: 12px 16px; margin: 12px 0; background: var(--page); }
.panel h3 { margin: 0 0 4px; } .panel:target, tr:target { background: var(--sheet); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(320px, 100%), 1fr)); gap: 14px 24px; margin-top: 8px; }
figure { margin: 0; min-width: 0; }
figcaption { font-size: 12.5px; line-height: 1.4; color: var(--soft); margin-top: 2px; }
ul { margin: 4px 0; padding-left: 20px; }
figure svg { display: block; width: 100%; max-width: 420px; height: auto; }
.t { font: 11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--soft); }
.strong { fill: var(--ink); } .end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: var(--grid); } .axis { stroke: var(--line); }
.roof { stroke: var(--ink); stroke-width: 1.5; fill: none; }
.limit { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; fill: none; }
.dot { fill: var(--head); fill-opacity: .75; } .dot.base { fill: none; stroke: var(--base); stroke-width: 1.8; }
.dot.faint { fill: var(--soft); fill-opacity: .45; }
.dot.this { fill: var(--head); fill-opacity: 1; stroke: var(--page); stroke-width: 1; }
.median { stroke: var(--ink); stroke-width: 2; } .bar { fill: var(--head); fill-opacity: .8; }
.bar.outline { fill: none; stroke: var(--base); stroke-width: 1.5; } .track { fill: var(--grid); }
.used { fill: var(--soft); } .used.near { fill: var(--unsure); } .used.over { fill: var(--bad); }
.trace { fill: none; stroke: var(--head); stroke-width: 1.2; stroke-opacity: .8; }
td > svg[role=img] { display: block; margin-top: 3px; }
pre { background: var(--sheet); padding: 8px 12px; border-radius: 4px; overflow-x: auto; margin: 6px 0; }
pre mark { background: var(--fill); color: var(--ink); display: inline-block; min-width: 100%; }
.finding { border-left: 4px solid var(--bad); padding-left: 12px; margin: 12px 0; overflow-wrap: anywhere; }
.buckets { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 10px 18px; }
footer { margin-top: 40px; padding-bottom: 40px; border-top: 1px solid var(--line); }
@media (max-width: 600px) { body { font-size: 14px; } header, main, footer { padding: 0 12px; } h1 { font-size: 20px; } .panel { padding: 10px 12px; }
  .matrix tbody th { min-width: 130px; max-width: 150px; }
  .reds thead { display: none; } .reds, .reds tbody, .reds tr, .reds td { display: block; border: 0; padding: 0; white-space: normal !important; min-width: 0 !important; }
  .reds tr { border-bottom: 1px solid var(--grid); padding: 6px 0; } .reds td:first-child { font-weight: 600; } }
@media (forced-colors: active) { .dot, .bar, .used { forced-color-adjust: none; } }
@media print { nav, .filter, fieldset { display: none; } .panel { break-inside: avoid; } }
"""
CSS += "".join(f".matrix .u{part}::before {{ width: {5 * part}%; }}\n" for part in range(1, 21))
