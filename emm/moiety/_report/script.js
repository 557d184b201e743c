// SPDX-License-Identifier: Apache-2.0
(function () {
  'use strict';
  const figures = JSON.parse(
      document.getElementById('moiety-figures').textContent);
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
