# SPDX-License-Identifier: Apache-2.0
"""What a report looks like, and the script that draws its plots."""

CSS = """
:root { color-scheme: light dark; --back: #ffffff; --card: #f6f7f9;
  --text: #1a1d21; --quiet: #4c535c; --line: #c9ced6; --grid: #e1e4e9;
  --warn: #fff1cf; --warn-text: #4a3500; --best: #dcefe6; --link: #0a58a8; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b;
  --card: #1c2026; --text: #e8eaed; --quiet: #aab1bb; --line: #434a54;
  --grid: #2c323a; --warn: #46380f; --warn-text: #ffe9b0;
  --best: #17392b; --link: #8ab8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem;
  background: var(--back); color: var(--text); overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: .3rem 0; line-height: 1.2; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .3rem; padding-top: .8rem;
  border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .2rem; }
p { margin: .3rem 0; max-width: 70ch; }
p.about, figcaption, .spread, dd { color: var(--quiet); }
ul.found { padding-left: 1.2rem; max-width: 80ch; }
.warn { background: var(--warn); color: var(--warn-text); padding: .7rem 1rem;
  border-radius: .4rem; max-width: none; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0;
  font-variant-numeric: tabular-nums; font-size: .93rem; }
th, td { padding: .35rem .5rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; min-width: 7.5rem; }
table.rounded { overflow-wrap: break-word; }
tbody th { overflow-wrap: anywhere; }
table.exact { font-size: .8rem; }
td.best { background: var(--best); font-weight: 600; }
.spread { display: block; font-size: .8rem; font-weight: 400; }
.plots { display: grid; gap: 1rem; margin: .5rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
.plots.wide {
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; padding: .7rem; background: var(--card); min-width: 0;
  border-radius: .4rem; }
figure strong { display: block; }
figcaption { font-size: .87rem; }
.plot { width: 100%; min-width: 0; }
.word { white-space: nowrap; margin-right: .9em; }
.key { display: inline-block; width: .9em; height: .9em; margin-right: .35em;
  vertical-align: -.08em; border-radius: 2px; }
.key.line { width: 1.8em; height: .8em; border-radius: 0; }
.out { background: #0072B2; } .part { background: #8FA0A0; }
.free { background: #E69F00; }
details { margin: .6rem 0; } summary { cursor: pointer; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; max-width: 70ch; }
a { color: var(--link); }
@media (max-width: 68rem) {
  thead { display: none; }
  tr { display: block; padding: .5rem 0; border-bottom: 2px solid var(--line); }
  tbody th { display: block; border: 0; padding: .2rem 0; font-size: 1.05rem; }
  td { display: flex; justify-content: space-between; gap: 1rem;
    flex-wrap: wrap; border: 0; padding: .15rem .4rem; }
  td::before { content: attr(data-label); color: var(--quiet);
    font-weight: 400; }
  .spread { width: 100%; } }
"""

SCRIPT = """
(function () {
  'use strict';
  const figures = JSON.parse(
      document.getElementById('binade-figures').textContent);
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const config = {displayModeBar: false, responsive: true, scrollZoom: false,
                  doubleClick: false, showTips: false};

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const one = (name) => style.getPropertyValue(name).trim();
    const set = {'font.color': one('--text'),
                 'hoverlabel.bgcolor': one('--back'),
                 'hoverlabel.font.color': one('--text')};
    for (const axis of ['xaxis', 'yaxis']) {
      set[axis + '.gridcolor'] = one('--grid');
      set[axis + '.linecolor'] = one('--line');
      set[axis + '.zerolinecolor'] = one('--line');
    }
    return set;
  }

  function paint(layout) {
    for (const [path, value] of Object.entries(colours())) {
      const names = path.split('.');
      const last = names.pop();
      let place = layout;
      for (const name of names) place = place[name] = place[name] || {};
      place[last] = value;
    }
    return layout;
  }

  async function draw() {
    for (const [id, figure] of Object.entries(figures)) {
      const place = document.getElementById(id);
      // So that the page can be read and moved before the last is drawn.
      await new Promise((done) => setTimeout(done, 0));
      await Plotly.newPlot(place, figure.data, paint(figure.layout), config);
    }
    document.documentElement.dataset.drawn = 'yes';
  }

  async function again() {
    document.documentElement.dataset.drawn = 'no';
    for (const id of Object.keys(figures)) {
      await Plotly.relayout(id, colours());
    }
    document.documentElement.dataset.drawn = 'yes';
  }

  draw().then(() => dark.addEventListener('change', again));
})();
"""
