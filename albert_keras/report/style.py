"""The style sheet of a page: light or dark, as wide as a phone, or on paper."""

# Blue and vermilion of Okabe and Ito, which all kinds of colour vision tell apart.
STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1c2127; --soft: #5d6773; --line: #dfe3e8; --panel: #f6f7f9;
  --train: #0067a8; --held: #b84a00; --event: #7a4d9e; --right: #0067a8; --wrong: #b84a00;
  --right-back: #e3f0f9; --wrong-back: #fbeade;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --ink: #e4e7eb; --soft: #9aa4b0; --line: #333a42; --panel: #1e2227;
    --train: #6cb8ee; --held: #f0975a; --event: #c49ae6; --right: #6cb8ee; --wrong: #f0975a;
    --right-back: #17303f; --wrong-back: #3d2718;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1240px; padding: 24px 20px 48px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans",
  sans-serif; font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
h1 { font-size: 26px; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 40px 0 4px; }
h3 { font-size: 14px; margin: 0 0 6px; }
p { margin: 4px 0; }
a { color: var(--train); }
code { font: 13px/1.4 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
.soft { color: var(--soft); }
.lead { max-width: 75ch; color: var(--soft); margin-bottom: 12px; }
.anywhere { overflow-wrap: anywhere; }
.state { font-weight: 600; }
header p { margin: 4px 0 0; }

.problems { border-left: 4px solid var(--held); background: var(--panel); padding: 8px 14px;
  margin: 16px 0 0; }
.problems ul { margin: 0; padding-left: 18px; }

.groups { display: flex; flex-wrap: wrap; gap: 16px 28px; margin-top: 22px; }
.groups section { flex: 1 1 500px; }
.tiles { display: grid; grid-template-columns: repeat(3, 1fr); gap: 12px; margin: 0; }
.tile { background: var(--panel); border-radius: 6px; padding: 12px 14px; }
.tile dt { color: var(--soft); font-size: 13px; }
.tile dd { margin: 0; font-size: 13px; color: var(--soft); }
.tile .figure { font-size: 25px; line-height: 1.3; font-weight: 600; color: var(--ink); }
.tile .figure small { font-size: 14px; font-weight: 400; color: var(--soft); }
progress { display: block; width: 100%; height: 6px; margin-top: 6px; accent-color: var(--train); }

.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr));
  gap: 20px 24px; }
figure { margin: 0; break-inside: avoid; }
figcaption { font-size: 14px; }
figcaption span { color: var(--soft); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 11px; fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.tick.x { text-anchor: middle; }
.tick.y { text-anchor: end; dominant-baseline: central; }
.curve { fill: none; stroke: var(--train); stroke-width: 1.6; stroke-linejoin: round; }
.spot { fill: transparent; }
.spot:hover { fill: var(--train); fill-opacity: .35; }
.baseline { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 5 3; }
svg .baseline-name { text-anchor: end; }
.baseline-name, .end { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
.held-out { fill: var(--held); stroke: var(--paper); stroke-width: 1; }
.held-out-line { fill: none; stroke: var(--held); stroke-width: 1; stroke-dasharray: 1 3;
  stroke-linecap: round; }
.whisker { stroke: var(--held); stroke-width: 1.6; }
.end { dominant-baseline: central; }
.end .value { font-weight: 600; }
svg .curve-name { fill: var(--train); }
svg .held-out-name { fill: var(--held); }
.event { stroke: var(--event); stroke-width: 1; stroke-opacity: .7; }
svg .event-name { fill: var(--event); text-anchor: middle; font-weight: 600; font-size: 10px; }

.scroll { overflow-x: auto; }
.scroll th, .scroll td { white-space: nowrap; }
.scroll .name { white-space: normal; overflow-wrap: anywhere; min-width: 8ch; max-width: 24ch; }
.scroll .words { white-space: normal; min-width: 36ch; }
table { border-collapse: collapse; font-size: 14px; }
th { text-align: left; font-weight: 600; }
thead th { color: var(--soft); font-weight: 400; font-size: 13px; vertical-align: bottom;
  border-bottom: 1px solid var(--soft); }
th, td { padding: 4px 16px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; white-space: nowrap; }
tbody th { font-weight: 400; }

.examples { columns: 500px; column-gap: 16px; }
.example { background: var(--panel); border-radius: 6px; padding: 12px 14px; margin: 0 0 16px;
  break-inside: avoid; }
.example .text { display: flex; gap: 8px; margin: 0 0 6px; line-height: 1.75; }
.example .text b { color: var(--soft); font-weight: 600; flex: none; }
.example .text span { unicode-bidi: isolate; overflow-wrap: anywhere; }
.piece { unicode-bidi: isolate; }
mark { color: inherit; border-radius: 3px; padding: 1px 3px; unicode-bidi: isolate; }
mark.right { background: var(--right-back); border-bottom: 2px solid var(--right); }
mark.wrong { background: var(--wrong-back); border-bottom: 2px dotted var(--wrong); }
mark sup { font-size: 10px; line-height: 0; font-weight: 600; margin-left: 2px; }
mark.right sup, .sign.right { color: var(--right); }
mark.wrong sup, .sign.wrong { color: var(--wrong); }
.sign { font-weight: 700; }
.guesses { width: 100%; font-size: 13px; margin-top: 4px; }
.guesses td, .guesses th { padding: 3px 10px 3px 0; }
.guess { white-space: nowrap; margin-right: 9px; display: inline-block; }
.guess i { font-style: normal; color: var(--soft); }
.guess.truth .piece { font-weight: 700; }

.settings { columns: 340px; column-gap: 28px; }
.settings section { break-inside: avoid; margin-bottom: 24px; }
.settings .pairs { width: 100%; }
.pairs td { text-align: right; overflow-wrap: anywhere; }
.pairs th { white-space: nowrap; }
.settings .wide { column-span: all; padding-top: 24px; }

@media (max-width: 640px) {
  body { padding: 16px 14px 32px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tile:last-child:nth-child(odd) { grid-column: 1 / -1; }
  .groups section { flex-basis: 100%; }
  .tile .figure { font-size: 21px; }
}
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --line: #ccc;
    --panel: #fff; --train: #0067a8; --held: #b84a00; --event: #7a4d9e; --right: #0067a8;
    --wrong: #b84a00; --right-back: #e3f0f9; --wrong-back: #fbeade; }
  body { padding: 0; max-width: none; font-size: 12px; }
  .tile, .example { border: 1px solid var(--line); }
  .charts { grid-template-columns: 1fr 1fr; }
  .scroll { overflow: visible; }
  .scroll th, .scroll td { white-space: normal; }
  table, thead th { font-size: 11px; }
  h2, h3, .lead { break-after: avoid; }
  tr { break-inside: avoid; }
}
"""
