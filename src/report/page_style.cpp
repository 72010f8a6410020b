#include "report/page_parts.h"

namespace lathe {

const char* const kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --panel: #ffffff; --ink: #1d2129; --soft: #5d6675; --rule: #e3e1dc; --grid: #ecebe6;
  --accent: #0b62c4; --good: #0a7d54; --bad: #b5361b; --even: #6b6f78;
  --good-wash: #e2f4ec; --bad-wash: #fbe9e4; --even-wash: #eeeeec;
  --naive: #8a8f99; --peer-1: #d9822b; --peer-2: #7b4fc9; --peer-3: #0e8a92;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --panel: #1b1f26; --ink: #e7e9ee; --soft: #9aa3b2; --rule: #2d333d; --grid: #262b34;
    --accent: #6cb0ff; --good: #4fc796; --bad: #ff8d70; --even: #a5abb6;
    --good-wash: #15332a; --bad-wash: #3c1f18; --even-wash: #2a2e36;
    --naive: #8f96a3; --peer-1: #f0a55c; --peer-2: #b196f2; --peer-3: #5cc9cf;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main, header, footer { max-width: 1000px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 40px; }
.brand { margin: 0; color: var(--accent); font-weight: 650; letter-spacing: .02em; }
h1 { margin: 0; font-size: 2.1rem; line-height: 1.2; letter-spacing: -.015em; overflow-wrap: anywhere; }
h2 { margin: 0 0 14px; font-size: 1.2rem; letter-spacing: -.005em; }
.meta { margin: 8px 0 0; color: var(--soft); font-size: .9rem; overflow-wrap: anywhere; }
section { margin: 28px 0; padding: 22px 24px; background: var(--panel); border: 1px solid var(--rule); border-radius: 10px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(168px, 1fr)); gap: 12px; margin: 28px 0; }
.card { padding: 16px 18px; background: var(--panel); border: 1px solid var(--rule); border-radius: 10px; }
.card dt { color: var(--soft); font-size: .82rem; }
.card dd { margin: 2px 0 0; font-size: 1.75rem; font-weight: 620; line-height: 1.25; letter-spacing: -.02em;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.card .note { color: var(--soft); font-size: .8rem; font-weight: 400; line-height: 1.5; letter-spacing: 0; white-space: normal; }
.card:first-child dd:not(.note) { color: var(--accent); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .92rem; }
th, td { padding: 7px 12px; text-align: left; border-bottom: 1px solid var(--rule); vertical-align: baseline; }
th:first-child, td:first-child { padding-left: 0; }
th { font-weight: 600; }
thead th { color: var(--soft); font-weight: 500; font-size: .82rem; white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.winner > *, .peak > * { color: var(--accent); font-weight: 600; }
small { color: var(--soft); font-weight: 400; }
table caption { text-align: left; color: var(--soft); padding-bottom: 8px; }
.plain th { width: 11em; font-weight: 500; color: var(--soft); }
.plain code { overflow-wrap: anywhere; }
.bar { width: 26%; min-width: 90px; }
.bar i { display: block; height: 9px; min-width: 2px; border-radius: 3px; }
.bar .good { background: var(--good); } .bar .bad { background: var(--bad); }
.pill { display: inline-block; padding: 0 9px; border-radius: 99px; font-size: .82rem; white-space: nowrap; }
.pill.good { background: var(--good-wash); color: var(--good); }
.pill.bad { background: var(--bad-wash); color: var(--bad); }
.pill.even { background: var(--even-wash); color: var(--even); }
.caption, .empty { margin: 10px 0 0; color: var(--soft); font-size: .85rem; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
svg { display: block; width: 100%; height: auto; margin: 0 auto; }
svg text { fill: var(--ink); font-size: 13px; }
svg .tick, svg .axis { fill: var(--soft); font-size: 12px; }
svg .strong { font-weight: 650; }
svg .halo { paint-order: stroke; stroke: var(--panel); stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke: var(--grid); }
.reference { stroke: var(--soft); stroke-dasharray: 4 4; }
.best-line { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round; }
.dot { fill: var(--naive); opacity: .55; }
.best-dot { fill: var(--accent); stroke: var(--panel); stroke-width: 1.5; }
.loss-dot { fill: var(--bad); stroke: var(--panel); stroke-width: 1.5; }
.failure { fill: var(--bad); opacity: .7; }
.roof { stroke: var(--soft); stroke-width: 1.5; }
.whisker { stroke: var(--accent); stroke-width: 1.5; } .whisker.loss { stroke: var(--bad); }
.edge { fill: none; stroke: var(--soft); stroke-width: 1.3; opacity: .7; }
.node { fill: var(--paper); stroke: var(--rule); } .node-best { stroke: var(--accent); stroke-width: 2; }
svg .label { fill: var(--soft); font-size: 12px; } svg .title { font-size: 15px; }
.raw { fill: none; stroke: var(--rule); } .smooth { fill: none; stroke: var(--accent); stroke-width: 2; }
.held { fill: var(--peer-1); }
.mix-0 { fill: var(--good); background: var(--good); } .mix-1 { fill: var(--peer-1); background: var(--peer-1); }
.mix-2 { fill: var(--naive); background: var(--naive); } .mix-3 { fill: var(--peer-2); background: var(--peer-2); }
.mix-4 { fill: var(--peer-3); background: var(--peer-3); } .mix-5 { fill: var(--bad); background: var(--bad); }
.mix-6 { fill: var(--accent); background: var(--accent); } .mix-7 { fill: var(--rule); background: var(--rule); }
.lineage { max-height: 640px; overflow-y: auto; }
.series-0 { fill: var(--naive); background: var(--naive); } .series-1 { fill: var(--peer-1); background: var(--peer-1); }
.series-2 { fill: var(--peer-2); background: var(--peer-2); } .series-3 { fill: var(--peer-3); background: var(--peer-3); }
.series-best { fill: var(--accent); background: var(--accent); }
circle[class^="series"] { stroke: var(--panel); stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; font-size: .88rem; color: var(--soft); }
.legend i { display: inline-block; width: 10px; height: 10px; margin-right: 6px; border-radius: 50%; }
code, pre, .diff { font-family: ui-monospace, SFMono-Regular, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 13px; }
pre { margin: 0; padding: 14px 16px; overflow-x: auto; line-height: 1.5; tab-size: 2;
  background: var(--paper); border: 1px solid var(--rule); border-radius: 8px; max-height: 70vh; }
.code.scroll { background: var(--paper); border: 1px solid var(--rule); border-radius: 8px; max-height: 70vh; overflow: auto; }
.diff { line-height: 1.5; }
.diff td { padding: 0 10px; border: 0; white-space: pre; tab-size: 2; }
.diff td:nth-child(-n+2) { color: var(--soft); text-align: right; width: 1px; user-select: none; opacity: .8; }
.diff td:nth-child(3) { width: 1px; padding: 0 2px; }
.diff .added { background: var(--good-wash); } .diff .removed { background: var(--bad-wash); }
.diff .fold td { color: var(--soft); text-align: left; padding: 4px 16px; opacity: 1;
  font-family: system-ui, sans-serif; font-size: .8rem; user-select: none; }
.plus { color: var(--good); } .minus { color: var(--bad); }
details { margin-top: 14px; }
summary { cursor: pointer; color: var(--accent); margin-bottom: 10px; }
footer { padding-bottom: 40px; color: var(--soft); font-size: .85rem; }
@media (max-width: 600px) {
  main, header, footer { padding: 0 14px; }
  header { padding-top: 24px; }
  section { padding: 18px 14px; margin: 18px 0; }
  h1 { font-size: 1.6rem; }
  .cards { grid-template-columns: repeat(2, 1fr); gap: 8px; }
  .card { padding: 12px; } .card dd:not(.note) { font-size: 1.4rem; }
  .card:last-child:nth-child(odd) { grid-column: 1 / -1; }
  table { font-size: .84rem; } th, td { padding: 7px 6px; } thead th { white-space: normal; }
  .bar { width: auto; min-width: 48px; }
  pre, code, .diff { font-size: 12px; }
}
@media print {
  .lineage, pre, .code.scroll { max-height: none; }
  section { break-inside: avoid; }
}
)css";

}  // namespace lathe
