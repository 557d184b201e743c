# SPDX-License-Identifier: Apache-2.0
"""What is asked of a report in a browser. Each check gives a list of what is
wrong, so that a test can also ask whether it would find something."""

import json
import statistics

FIELDS = {
    "mean_ns": ("latency_ns", "all", "mean"),
    "median_ns": ("latency_ns", "all", "median"),
    "p99_ns": ("latency_ns", "all", "p99"),
    "max_ns": ("latency_ns", "all", "max"),
    **{name: (name,) for name in (
        "peak_live_bytes", "peak_reserved_bytes", "waste_internal_bytes",
        "waste_external_bytes", "smallest_limit_bytes", "driver_calls",
        "ooms")}}

# Of each section its heading, and of each cell its subject, field and text.
READ_TABLES = """
[...document.querySelectorAll('section')].map(section => [
  section.querySelector('h2').textContent,
  [...section.querySelectorAll('table.exact td')].map(cell =>
    [cell.dataset.label, cell.dataset.field, cell.textContent])])
"""

# Of each plot its title and what it draws.
READ_PLOTS = """
[...document.querySelectorAll('.plot')].map(plot => ({
  section: plot.closest('section').querySelector('h2').textContent,
  title: plot.closest('figure').querySelector('strong').textContent,
  data: plot.data.map(one => ({
    name: one.name, type: one.type, x: one.x && [...one.x],
    y: one.y && [...one.y], z: one.z && one.z.map(line => [...line]),
  })),
  unit: plot.layout.yaxis.title?.text,
  ticks: plot.layout.yaxis.ticktext,
}))
"""

# What sticks out of the page, or of the box of its plot.
READ_OVERFLOW = """
(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    found.push('the page is ' + document.documentElement.scrollWidth
               + ' wide, the window ' + width);
  }
  for (const one of document.querySelectorAll('main *:not(svg *)')) {
    const box = one.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) {
      found.push(one.outerHTML.slice(0, 80) + ': ' + box.left + ' to '
                 + box.right);
    }
  }
  for (const one of document.querySelectorAll('.plot svg text')) {
    const box = one.getBoundingClientRect();
    const frame = one.closest('figure').getBoundingClientRect();
    if (box.width && (box.right > frame.right + 1
                      || box.left < frame.left - 1)) {
      found.push(one.textContent + ': ' + box.left + ' to ' + box.right);
    }
  }
  return found;
})()
"""

# Elements that say nothing: a section with nothing but a heading, what has no
# text, and a cell without a number or word.
READ_EMPTY = """
[...document.querySelectorAll('main section, main ul, main ol, main dl, '
  + 'main p, main li, main dd, main td, main tbody, main .plots')]
  .filter(one => {
    const copy = one.cloneNode(true);
    if (one.tagName === 'SECTION') {
      copy.querySelectorAll('h2, h3').forEach(title => title.remove());
    }
    return !copy.textContent.trim();
  }).map(one => one.tagName.toLowerCase())
"""

# A number, a space that may end a line, and a unit.
READ_TORN = """
(() => {
  const torn = new RegExp(
    '[0-9] (?:B|[KMGT]iB|[nµm]?s|%|(?:thread|processor|run|stream)s?)'
    + '(?![A-Za-z])', 'g');
  const texts = document.createTreeWalker(
    document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    found.push(...texts.currentNode.textContent.match(torn) || []);
  }
  return found;
})()
"""

# Text of a plot that has not the colour of the page's.
READ_COLOURS = """
(() => {
  const wanted = getComputedStyle(document.body).color;
  return [...document.querySelectorAll('.plot svg text')]
    .filter(one => one.textContent
                   && getComputedStyle(one).fill !== wanted)
    .map(one => one.textContent + ': ' + getComputedStyle(one).fill
                + ' and not ' + wanted);
})()
"""


def walk(row, path):
    for name in path:
        row = (row or {}).get(name)
    return row


def median(rows, read):
    known = [one for one in map(read, rows) if one is not None]
    return statistics.median(known) if known else None


def expected(rows, name):
    if name != "footprint":
        return median(rows, lambda row: walk(row, FIELDS[name]))
    return median(rows, lambda row: row["peak_live_bytes"] and
                  row["peak_reserved_bytes"] / row["peak_live_bytes"])


def title(row):
    threads = row["threads"]
    return (f"{row['trace']['file']}, {row['mode']}, {threads}\u00a0"
            f"thread{'s' if threads > 1 else ''}")


def by_subject(rows):
    """{heading: {subject: its rows}} of what ran."""
    found = {}
    for row in rows:
        ran = found.setdefault(title(row), {})
        if row.get("refused") is None:
            ran.setdefault(row["subject"], []).append(row)
    return found


def wrong_cells(browser, rows):
    """Numbers of the tables that the rows do not have, and lacking ones."""
    wanted, wrong, seen = by_subject(rows), [], set()
    for heading, cells in browser.value(READ_TABLES):
        for subject, name, cell in cells:
            seen.add((heading, subject, name))
            found = wanted.get(heading, {}).get(subject, [])
            value = expected(found, name)
            read = None if cell == "unknown" else float(cell.replace(",", ""))
            if read != value:
                wrong.append(f"{heading}, {subject}, {name}: {cell}, but the "
                             f"rows have {value}")
    for heading, subjects in wanted.items():
        for subject, found in subjects.items():
            wrong += [f"{heading}, {subject}: no {name}"
                      for name in (*FIELDS, "footprint")
                      if expected(found, name) is not None
                      and (heading, subject, name) not in seen]
    return wrong


BARS = {"Peak reserved ÷ peak live": ("footprint",),
        "Smallest memory with which the trace runs": ("smallest_limit_bytes",),
        "Calls to the driver for memory": ("driver_calls",),
        "Average time for an operation": ("mean_ns",),
        "Allocations that failed": ("ooms",),
        "Time for an operation: median / p99": ("p99_ns", "median_ns")}
POWERS = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3}


def wrong_bars(plot, subjects):
    """Bars stand in the reverse order of the subjects."""
    order = list(subjects)[::-1]
    for name, drawn in zip(BARS[plot["title"]], plot["data"], strict=True):
        for x, y in zip(drawn["x"], drawn["y"], strict=True):
            value = expected(subjects[order[y]], name)
            if x != value:
                yield f"bar of {order[y]}, {name}: {x}, not {value}"
        if len(drawn["x"]) != sum(bool(expected(subjects[one], name))
                                  for one in order):
            yield f"{plot['title']}: only {len(drawn['x'])} bars"


def wrong_curves(plot, rows):
    timeline = next(row["timeline"] for row in rows if row["timeline"])
    for drawn in plot["data"]:
        name = "handed" if drawn["name"] == "handed out" else drawn["name"]
        whole = dict(zip(timeline["op"], timeline[name], strict=True))
        scale = 1024 ** POWERS[plot["unit"]]
        for op, value in zip(drawn["x"], drawn["y"], strict=True):
            if abs(value * scale - whole[op]) > 1:
                yield f"{plot['title']}, {name} at {op}: {value}"
        if name in ("live", "reserved") and \
                max(drawn["y"]) * scale < max(whole.values()) - 1:
            yield f"{plot['title']}: the peak of {name} is not drawn"


def wrong_map(plot, rows):
    found = next(row["map"] for row in rows if row["map"])
    cells = [one for line in plot["data"][0]["z"] for one in line
             if one is not None]
    reserved = sum(size for _, size in found["segments"])
    handed = sum(size for _, size in found["blocks"])
    drawn = sum(cells) / 100 * reserved / len(cells)
    if abs(drawn - handed) > 0.001 * reserved:
        yield f"map of {plot['title']}: {drawn} handed out, not {handed}"


def wrong_shares(plot, subjects):
    """The last point is that of all operations, each other of those before."""
    for drawn in plot["data"]:
        counts = {}
        for row in subjects[drawn["name"]]:
            for ns, count in row["latency_ns"]["histogram"]:
                counts[ns] = counts.get(ns, 0) + count
        total = sum(counts.values())
        for ns, share in zip(drawn["x"], drawn["y"], strict=True):
            below = sum(count for at, count in counts.items()
                        if max(at, 1) <= ns)
            if abs(share - 100 * below / total) > 1e-6:
                yield f"share of {drawn['name']} at {ns}: {share}"


def wrong_plots(browser, rows):
    """What is drawn and not in the rows."""
    wanted, wrong, kinds = by_subject(rows), [], set()
    for plot in browser.value(READ_PLOTS):
        subjects = wanted[plot["section"]]
        if plot["title"] in BARS:
            kind, found = "bars", wrong_bars(plot, subjects)
        elif plot["title"].startswith("Share"):
            kind, found = "shares", wrong_shares(plot, subjects)
        elif plot["data"][0]["type"] == "heatmap":
            kind, found = "map", wrong_map(plot, subjects[plot["title"]])
        else:
            kind, found = "curves", wrong_curves(plot,
                                                 subjects[plot["title"]])
        kinds.add(kind)
        wrong += found
    if kinds != {"bars", "shares", "map", "curves"}:
        wrong.append(f"drawn is only {kinds}")
    return wrong


def complaints(browser):
    return [json.dumps(one["params"]) for one in browser.complaints()]


def requests(browser):
    """What was asked for beside the page itself."""
    return [one for one in browser.requests()[1:]
            if not one.startswith("data:")]


def overflow(browser):
    browser.value("document.querySelectorAll('details').forEach("
                  "one => { one.open = true; })")
    return browser.value(READ_OVERFLOW)


def wrong_colours(browser):
    return browser.value(READ_COLOURS)


def empty(browser):
    return browser.value(READ_EMPTY)


def torn(browser):
    """Numbers that a line's end may part from their units."""
    return browser.value(READ_TORN)
