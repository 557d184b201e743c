# SPDX-License-Identifier: Apache-2.0
"""The HTML of a report. Whatever comes from a row goes through text()."""

import base64
import hashlib
import html
import json

from binade import _report_figures as figures
from binade import _report_map, _report_style, _report_words as words

# Field, heading, unit. In the table of what a comparison measured.
COLUMNS = (
    ("median_ns", "median", words.as_time),
    ("p99_ns", "p99", words.as_time),
    ("max_ns", "slowest", words.as_time),
    ("peak_live_bytes", "peak live", words.as_bytes),
    ("peak_reserved_bytes", "peak reserved", words.as_bytes),
    ("footprint", "peak reserved ÷ peak live", words.as_ratio),
    ("waste_internal_bytes", "internal waste", words.as_bytes),
    ("waste_external_bytes", "external waste", words.as_bytes),
    ("smallest_limit_bytes", "smallest limit", words.as_bytes),
    ("driver_calls", "driver calls", words.as_count),
    ("ooms", "out of memory", words.as_count),
)
MARKED = {"median_ns", "p99_ns", "footprint", "smallest_limit_bytes",
          "driver_calls"}
BARS = (
    ("footprint", "Peak reserved ÷ peak live", words.as_ratio,
     "1 means that no memory was held beyond what the program needed."),
    ("smallest_limit_bytes", "Smallest memory with which the trace runs",
     words.as_bytes, "Shorter is better."),
    ("driver_calls", "Calls to the driver for memory", words.as_count,
     "Shorter is better."),
)


def text(value):
    return html.escape(str(value), quote=True)


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


def cell(column, subject, best):
    name, heading, unit = column
    value = subject.values[name]
    shown = text(unit(value and value["median"]))
    if value and value["count"] > 1 and value["min"] != value["max"]:
        shown += (f'<span class="spread">{text(unit(value["min"]))} to '
                  f'{text(unit(value["max"]))}</span>')
    mark = ' class="best"' if value and value["median"] == best else ""
    return (f'<td{mark} data-field="{name}" data-label="{text(heading)}">'
            f"<span>{shown}</span></td>")


def least(comparison, name):
    ranked = comparison.ranked(name) if name in MARKED else []
    return ranked[0][0] if len(ranked) > 1 else None


def table(page, comparison):
    # A column in which nothing is known would only take room.
    columns = [one for one in COLUMNS if comparison.mode == "serial" or any(
        subject.values[one[0]] for subject in comparison.ran)]
    best = {one[0]: least(comparison, one[0]) for one in columns}
    page.add("<table><thead><tr><th scope=col>subject</th>",
             *(f"<th scope=col>{text(one[1])}</th>" for one in columns),
             "</tr></thead><tbody>")
    for subject in comparison.ran:
        page.add(f"<tr><th scope=row>{text(subject.name)}</th>",
                 *(cell(one, subject, best[one[0]]) for one in columns),
                 "</tr>")
    page.add("</tbody></table>")


def spoken(comparison, name, unit):
    return ", ".join(f"{one.name} {unit(one.median(name))}"
                     for one in comparison.ran)


def is_wide(comparison, name):
    """Whether a linear axis would hide the small ones."""
    known = [one.median(name) for one in comparison.ran if one.median(name)]
    return bool(known) and max(known) > 20 * min(known)


def bar_plots(page, comparison):
    page.add('<div class="plots">')
    if any(one.values["median_ns"] for one in comparison.ran):
        page.plot(figures.latency(page.graph, comparison, page.order),
                  "Time for an operation: median / p99",
                  "Median: " + spoken(comparison, "median_ns", words.as_time)
                  + ". p99: " + spoken(comparison, "p99_ns", words.as_time),
                  "Filled: median. Striped: p99. Shorter is better; each "
                  "line of the axis is ten times the one before.")
    for name, title, unit, caption in BARS:
        if any(one.values[name] for one in comparison.ran):
            log = is_wide(comparison, name)
            page.plot(figures.bars(page.graph, comparison, page.order,
                                   ((name, title),), unit, log), title,
                      f"{title}: {spoken(comparison, name, unit)}",
                      caption + (" The axis is logarithmic." if log else ""))
    page.add("</div>")


def memory_plots(page, comparison):
    subjects = [one for one in comparison.ran
                if (one.first("timeline") or {}).get("op")]
    if not subjects:
        return
    scale = figures.scale_of(subjects)
    page.add("<h3>Memory over time</h3><p>The gap between <em>live</em> and "
             "<em>reserved</em> is what the subject holds and the program "
             'does not need.</p><div class="plots">')
    for one in subjects:
        missing = figures.unknown_series(one.first("timeline"))
        note = f"Unknown: {words.joined(missing)}." if missing else ""
        peak = words.as_bytes(one.median("peak_reserved_bytes"))
        page.plot(figures.memory(page.graph, one, scale), one.name,
                  f"{one.name}: memory over the operations of the trace, at "
                  f"most {peak} reserved. {note}", text(note))
    page.add("</div>")


def map_words(found):
    segments, blocks = _report_map.pieces(found)
    holes = _report_map.free_pieces(found)
    said = (f"{words.plain(len(blocks))} blocks in "
            f"{words.plain(len(segments))} segments")
    if not holes:
        return said + "; nothing is free."
    return (f"{said}; {words.as_bytes(sum(holes))} free in "
            f"{words.plain(len(holes))} pieces, the largest of "
            f"{words.as_bytes(max(holes))}.")


def map_plots(page, comparison):
    subjects = [one for one in comparison.ran
                if (one.first("map") or {}).get("segments")]
    if not subjects:
        return
    page.add("<h3>Address space when most was reserved</h3>"
             "<p>All reserved memory in the order of its addresses, line by "
             "line. Each cell is an equal part of it:"
             '<span class="key out"></span>handed out'
             '<span class="key free"></span>free, or grey for partly.</p>'
             '<div class="plots">')
    for one in subjects:
        said = map_words(one.first("map"))
        page.plot(figures.address_map(page.graph, one), one.name,
                  f"{one.name}: {said}", text(said))
    page.add("</div>")


def comparison_part(page, number, comparison):
    about = comparison.about
    facts = [f"{words.as_count(about.get('operations'))} operations",
             f"{words.as_count(about.get('threads'))} threads",
             f"{words.as_count(about.get('streams'))} streams",
             f"peak live {words.as_bytes(about.get('peak_live_bytes'))}"]
    info = about.get("info") or {}
    if isinstance(info, dict):
        facts += [f"{key}: {value}" for key, value in info.items()]
    page.add(f'<section id="c{number}"><h2>{text(comparison.title())}</h2>'
             f'<p class="about">The trace: {text(", ".join(facts))}.</p>')
    page.add('<ul class="found">',
             *(f"<li>{text(one)}</li>" for one in words.findings(comparison)),
             "</ul>")
    if comparison.ran:
        table(page, comparison)
        bar_plots(page, comparison)
        made = figures.distribution(page.graph, comparison, page.order)
        if made:
            page.add("<h3>How long operations took</h3>")
            page.plot(made, "Share of operations that took at most so long",
                      "The shares of operations by time, whose median and p99 "
                      "are in the table.", "Further left and up is better.")
        memory_plots(page, comparison)
        map_plots(page, comparison)
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


def provenance(page, rows):
    page.add("<h2>Where the numbers are from</h2><dl>")
    dates = sorted(map(str, distinct(rows, "date")))
    if len(dates) > 2:
        dates = [f"{dates[0]} to {dates[-1]}"]
    for title, found in (
            ("machine", map(machine_words, distinct(rows, "machine"))),
            ("driver", distinct(rows, "driver")),
            ("commit", distinct(rows, "commit")), ("date", dates)):
        said = "; ".join(map(str, found)) or words.UNKNOWN
        page.add(f"<dt>{title}</dt><dd>{text(said)}</dd>")
    page.add(f"<dt>rows</dt><dd>{len(rows)}. Where a subject ran more than "
             "once, the median is shown, and below it the least and the "
             "greatest.</dd></dl>")


def top(page, rows, comparisons):
    page.add("<h1>How much memory, and how fast?</h1><p>"
             "The allocations of real programs, replayed on "
             f"{text(words.joined(page.order))}.</p>")
    page.add(*(f'<p class="warn" role="note">{text(one)}</p>'
               for one in warnings(rows)))
    if len(comparisons) < 2:
        return
    for number, one in enumerate(comparisons):
        page.add(f'<p><a href="#c{number}">{text(one.title())}</a></p>'
                 '<ul class="found">',
                 *(f"<li>{text(said)}</li>" for said in words.findings(one)),
                 "</ul>")


def numbers(comparisons):
    """What the tables show, for programs."""
    return [{"trace": one.trace, "mode": one.mode, "copies": one.copies,
             "threads": one.threads, "limit_bytes": one.limit_bytes,
             "subjects": [{"subject": subject.name,
                           "refused": subject.refused, **subject.values}
                          for subject in one.subjects.values()]}
            for one in comparisons]


def body(graph, rows, comparisons):
    order = list(dict.fromkeys(name for one in comparisons
                               for name in one.subjects))
    page = Page(graph, order)
    top(page, rows, comparisons)
    for number, one in enumerate(comparisons):
        comparison_part(page, number, one)
    provenance(page, rows)
    page.add("<h2>What the words mean</h2><dl>",
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


def render(graph, plotly_script, rows, comparisons):
    page = body(graph, rows, comparisons)
    scripts = (plotly_script, _report_style.SCRIPT)
    return "".join([
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        f'content="{text(allowed(scripts))}">'
        '<meta name="viewport" content="width=device-width, '
        'initial-scale=1"><title>Binade: replay of traces</title>'
        f"<style>{_report_style.CSS}</style></head><body><main>",
        *page.parts,
        '</main><script type="application/json" id="binade-numbers">',
        script_json(numbers(comparisons)),
        '</script><script type="application/json" id="binade-figures">',
        script_json(page.figures), "</script>",
        *(f"<script>{one}</script>" for one in scripts),
        "</body></html>\n"])
