# SPDX-License-Identifier: Apache-2.0
"""The HTML of a report. Whatever comes from a row goes through text()."""

import base64
import hashlib
import json

from binade._report import figures, style, words
from binade._report import table as tables
from binade._report.table import text

BARS = (
    ("footprint", "Peak reserved ÷ peak live", words.as_ratio,
     "1 means that no memory was held beyond what the program needed. "
     "Shorter is better."),
    ("smallest_limit_bytes", "Smallest memory with which the trace runs",
     words.as_bytes, "With less, an allocation fails. Shorter is better."),
    ("driver_calls", "Calls to the driver for memory", words.as_count,
     "They are slow, and some wait for the device. Shorter is better."),
)


def script_json(value):
    """JSON that cannot end the element that it is in."""
    return (json.dumps(value, allow_nan=False, separators=(",", ":"))
            .replace("<", "\\u003c").replace(">", "\\u003e")
            .replace("&", "\\u0026"))


class Page:
    """Collects the body, and the figures that the script draws."""

    def __init__(self, graph, order):
        self.graph = graph
        self.order = order
        self.parts = []
        self.figures = {}

    def add(self, *parts):
        self.parts += parts

    def plot(self, made, title, says, caption=""):
        """`says` is what a reader hears who does not see the plot."""
        name = f"plot-{len(self.figures)}"
        self.figures[name] = made
        self.add(f'<figure><strong>{text(title)}</strong>'
                 f'<figcaption>{caption}</figcaption>'
                 f'<div class="plot" id="{name}" role="img" '
                 f'style="height:{made["layout"]["height"]}px" '
                 f'aria-label="{text(says)}"></div></figure>')


def spoken(comparison, name, unit):
    return ", ".join(f"{one.name} {unit(one.median(name))}"
                     for one in comparison.ran)


def is_wide(comparison, name):
    """Whether a linear axis would hide the small ones."""
    known = [one.median(name) for one in comparison.ran if one.median(name)]
    return bool(known) and max(known) > 20 * min(known)


def bar_plots(page, comparison):
    page.add('<h3>Side by side</h3><div class="plots wide">')
    if any(one.values["median_ns"] for one in comparison.ran):
        page.plot(figures.latency(page.graph, comparison, page.order),
                  "Time for an operation: median / p99",
                  "Median: " + spoken(comparison, "median_ns", words.as_time)
                  + ". p99: " + spoken(comparison, "p99_ns", words.as_time),
                  "Filled: median, what half of all operations stay within. "
                  "Striped: p99, what 99 of 100 stay within. Shorter is "
                  "better. The axis is logarithmic.")
    for name, title, unit, caption in BARS:
        if any(one.values[name] for one in comparison.ran):
            log = is_wide(comparison, name)
            page.plot(figures.bars(page.graph, comparison, page.order,
                                   ((name, title),), unit, log), title,
                      f"{title}: {spoken(comparison, name, unit)}",
                      caption + (" The axis is logarithmic." if log else ""))
    page.add("</div>")


def key(series):
    """How a curve looks, for those that read the plots of memory."""
    _, title, ink, line, fill = series
    style = {"solid": "solid", "dot": "dotted"}.get(line, "dashed")
    return ('<span class="word"><span class="key line" style="border-top:3px '
            f'{style} {ink};background:{fill or "none"}"></span>{title}'
            "</span> ")


def memory_plots(page, comparison):
    subjects = [one for one in comparison.ran
                if (one.first("timeline") or {}).get("op")]
    if not subjects:
        return
    scale = figures.scale_of(subjects)
    page.add("<h3>Memory over time</h3><p>Blue is what the program used. "
             "Grey above it is what the allocator held beside that: the less "
             "grey, the better.</p><p>", *map(key, figures.SERIES),
             '</p><div class="plots">')
    for one in subjects:
        missing = figures.unknown_series(one.first("timeline"))
        note = f"Unknown: {words.joined(missing)}." if missing else ""
        peak = words.as_bytes(one.median("peak_reserved_bytes"))
        page.plot(figures.memory(page.graph, one, scale), one.name,
                  f"{one.name}: memory over the operations of the trace, at "
                  f"most {peak} reserved. {note}", text(note))
    page.add("</div>")


def map_words(found):
    segments, blocks = figures.map_pieces(found)
    holes = figures.free_pieces(found)
    said = (f"{words.plain(len(blocks))} blocks in "
            f"{words.plain(len(segments))} segments")
    if not holes:
        return said + "; nothing is free."
    return (f"{said}; {words.as_bytes(sum(holes))} free in "
            f"{words.plain(len(holes))} pieces, the largest of "
            f"{words.as_bytes(max(holes))}.")


def map_plots(page, comparison):
    subjects = [one for one in comparison.ran
                if figures.map_pieces(one.first("map") or {})[0]]
    if not subjects:
        return
    page.add("<h3>Address space when most was reserved</h3>"
             "<p>All reserved memory in the order of its addresses, line by "
             "line. Each cell is an equal part of it. Few and large free "
             "areas are better than many small ones.</p><p>"
             '<span class="word"><span class="key out"></span>handed out'
             '</span> <span class="word"><span class="key part"></span>in '
             'part</span> <span class="word"><span class="key free"></span>'
             "free</span></p>"
             '<div class="plots">')
    for one in subjects:
        said = map_words(one.first("map"))
        page.plot(figures.address_map(page.graph, one), one.name,
                  f"{one.name}: {said}", text(said))
    page.add("</div>")


def distribution_plot(page, comparison):
    made = figures.distribution(page.graph, comparison, page.order)
    if made:
        page.add("<h3>How long operations took</h3>")
        page.plot(made, "Share of operations that took at most so long",
                  "The shares of operations by time, whose median and p99 "
                  "are in the table.",
                  "Further left is faster. Where a curve reaches 50 % is the "
                  "median. The axis is logarithmic.")


def comparison_part(page, number, comparison):
    about = comparison.about
    facts = [words.counted(about.get("operations"), "operation"),
             words.counted(about.get("threads"), "thread"),
             words.counted(about.get("streams"), "stream"),
             f"peak live {words.as_bytes(about.get('peak_live_bytes'))}"]
    recorded = about.get("recorded_peak_reserved_bytes")
    if recorded is not None:
        facts.append(f"{words.as_bytes(recorded)} reserved at the peak by the "
                     "allocator that it was recorded on")
    info = about.get("info") or {}
    if isinstance(info, dict):
        facts += [f"{name.replace('_', ' ')}: {value}"
                  for name, value in info.items()]
    page.add(f'<section id="c{number}"><h2>{text(comparison.title())}</h2>'
             '<p class="about"><a href="#top">To the top</a></p>'
             f'<p class="about">The trace: {text(", ".join(facts))}.</p>')
    page.add('<ul class="found">',
             *(f"<li>{text(one)}</li>" for one in words.findings(comparison)),
             "</ul>")
    if comparison.ran:
        bar_plots(page, comparison)
        distribution_plot(page, comparison)
        memory_plots(page, comparison)
        map_plots(page, comparison)
        page.add("<h3>The numbers</h3>",
                 *tables.rounded(comparison),
                 "<details><summary>The same with all digits</summary>",
                 *tables.exact(comparison),
                 "</details>")
    if comparison.refused:
        page.add("<h3>Did not run</h3><ul class=refused>",
                 *(f"<li><strong>{text(one.name)}</strong>: "
                   f"{text(one.refused)}</li>" for one in comparison.refused),
                 "</ul>")
    page.add("</section>")


def distinct(rows, name):
    found = []
    for row in rows:
        value = row.get(name)
        if value is not None and value not in found:
            found.append(value)
    return found


def warnings(rows):
    said = []
    if any(row.get("is_standin") for row in rows):
        said.append("Measured on the stand-in driver, without a GPU: the "
                    "times are not a GPU's, and only those of the allocators' "
                    "own work mean something.")
    if any(row.get("is_simulated") for row in rows):
        said.append("Some devices were simulated: the times are not a GPU's.")
    return said


def machine_words(machine):
    if not isinstance(machine, dict):
        return str(machine)
    return ", ".join(f"{key.replace('_', ' ')}: {value}"
                     for key, value in machine.items())


def provenance(page, rows, others):
    page.add("<h2>Where the numbers are from</h2><dl>")
    dates = sorted(map(str, distinct(rows, "date")))
    if len(dates) > 2:
        dates = [f"{dates[0]} to {dates[-1]}"]
    for title, found in (
            ("machine", map(machine_words, distinct(rows, "machine"))),
            ("device", distinct(rows, "device")),
            ("driver", distinct(rows, "driver")),
            ("commit", distinct(rows, "commit")), ("date", dates)):
        said = "; ".join(map(str, found)) or words.UNKNOWN
        page.add(f"<dt>{title}</dt><dd>{text(said)}</dd>")
    page.add(f"<dt>rows</dt><dd>{len(rows)}. Where a subject ran more than "
             "once, the median is shown, and below it the least and the "
             "greatest."
             + (f" {others} of another kind are left out." if others else "")
             + "</dd></dl>")


def top(page, rows, comparisons):
    page.add("<h1>How much memory, and how fast?</h1><p>A trace is every "
             "allocation and free that a program made. Each was replayed on "
             f"these allocators: {text(words.joined(page.order))}. The words "
             'are explained <a href="#words">at the end</a>.</p>')
    page.add(*(f'<p class="warn" role="note">{text(one)}</p>'
               for one in warnings(rows)))
    if len(comparisons) > 1:
        page.add(*tables.glance(comparisons, page.order))


def numbers(comparisons):
    """What the tables show, for programs."""
    return [{"trace": one.trace, "mode": one.mode, "threads": one.threads,
             "limit_bytes": one.limit_bytes, "lag": one.lag,
             "subjects": [{"subject": subject.name,
                           "refused": subject.refused, **subject.values}
                          for subject in one.subjects.values()]}
            for one in comparisons]


def body(graph, rows, comparisons, others):
    order = list(dict.fromkeys(name for one in comparisons
                               for name in one.subjects))
    page = Page(graph, order)
    top(page, rows, comparisons)
    for number, one in enumerate(comparisons):
        comparison_part(page, number, one)
    provenance(page, rows, others)
    page.add("<h2 id=words>What the words mean</h2><dl>",
             *(f"<dt>{text(term)}</dt><dd>{text(meaning)}</dd>"
               for term, meaning in words.GLOSSARY.items()), "</dl>")
    return page


def allowed(scripts):
    """Nothing may be loaded, and no script run but these: so says the page
    itself to the browser."""
    hashes = " ".join(
        "'sha256-" + base64.b64encode(
            hashlib.sha256(one.encode()).digest()).decode() + "'"
        for one in scripts)
    return (f"default-src 'none'; script-src {hashes}; "
            "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
            "form-action 'none'")


def render(graph, plotly_script, rows, comparisons, others):
    page = body(graph, rows, comparisons, others)
    scripts = (plotly_script, style.SCRIPT)
    return "".join([
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        f'content="{text(allowed(scripts))}">'
        '<meta name="viewport" content="width=device-width, '
        'initial-scale=1"><title>Binade: replay of traces</title>'
        f"<style>{style.CSS}</style></head><body id=top><main>",
        *page.parts,
        '</main><script type="application/json" id="binade-numbers">',
        script_json(numbers(comparisons)),
        '</script><script type="application/json" id="binade-figures">',
        script_json(page.figures), "</script>",
        *(f"<script>{one}</script>" for one in scripts),
        "</body></html>\n"])
