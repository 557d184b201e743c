# SPDX-License-Identifier: Apache-2.0
"""Fills page.html, the template of a report, which escapes what comes from a
row."""

import base64
import hashlib
import json
from pathlib import Path

from moiety._report import about, figures, findings, tables, words

FOLDER = Path(__file__).parent
BARS = (
    ("footprint", "Peak reserved ÷ peak live", words.as_ratio,
     "1 means that no memory was held beyond what the program needed. "
     "Shorter is better."),
    ("smallest_limit_bytes", "Smallest memory with which the trace runs",
     words.as_bytes, "With less, an allocation fails. Shorter is better."),
    ("mean_ns", "Average time for an operation", words.as_time,
     "All time spent in the allocator, by the operations. Shorter is "
     "better."),
    ("ooms", "Allocations that failed", words.as_count,
     "There was no memory for them within the limit. Shorter is better."),
    ("driver_calls", "Calls to the driver for memory", words.as_count,
     "They are slow, and some wait for the device. Shorter is better."),
)
# CSS's words for Plotly's.
LINE_STYLES = {"solid": "solid", "dot": "dotted"}
LOGARITHMIC = "The axis is logarithmic."


def script_json(value):
    """JSON that cannot end the element that it is in."""
    return (json.dumps(value, allow_nan=False, separators=(",", ":"))
            .replace("<", "\\u003c").replace(">", "\\u003e")
            .replace("&", "\\u0026"))


class Plots:
    """Collects the figures that the script draws."""

    def __init__(self, graph, order):
        self.graph = graph
        self.order = order
        self.figures = {}

    def add(self, made, title, says, caption=""):
        """What the template needs of it. `says` is what a reader hears who does
        not see the plot."""
        name = f"plot-{len(self.figures)}"
        self.figures[name] = made
        return {"id": name, "title": title, "says": says, "caption": caption,
                "height": made["layout"]["height"]}


def spoken(comparison, name, unit):
    return ", ".join(f"{one.name} {unit(one.median(name))}"
                     for one in comparison.ran)


def is_wide(comparison, name):
    """Whether a linear axis would hide the small ones."""
    known = [one.median(name) for one in comparison.ran if one.median(name)]
    return bool(known) and max(known) > 20 * min(known)


def bar_plots(plots, comparison):
    if any(one.values["median_ns"] for one in comparison.ran):
        yield plots.add(
            figures.latency(plots.graph, comparison, plots.order),
            "Time for an operation: median / p99",
            f"Median: {spoken(comparison, 'median_ns', words.as_time)}. "
            f"p99: {spoken(comparison, 'p99_ns', words.as_time)}",
            "Filled: median, what half of all operations stay within. Striped: "
            "p99, what 99 of 100 stay within. Shorter is better. "
            + LOGARITHMIC)
    for name, title, unit, caption in BARS:
        if any(one.median(name) for one in comparison.ran):
            log = is_wide(comparison, name)
            yield plots.add(
                figures.bars(plots.graph, comparison, plots.order,
                             ((name, title),), unit, log),
                title, f"{title}: {spoken(comparison, name, unit)}",
                f"{caption} {LOGARITHMIC}" if log else caption)


def distribution_plot(plots, comparison):
    made = figures.distribution(plots.graph, comparison, plots.order)
    return made and plots.add(
        made, "Share of operations that took at most so long",
        "The shares of operations by time, whose median and p99 are in the "
        "table.", f"Further left is faster. Where a curve reaches "
        f"50{words.JOIN}% is the median. " + LOGARITHMIC)


def memory_plots(plots, comparison):
    subjects = [one for one in comparison.ran
                if (one.first("timeline") or {}).get("op")]
    scale = figures.scale_of(subjects)
    for one in subjects:
        missing = figures.unknown_series(one.first("timeline"))
        note = f"Unknown: {words.joined(missing)}." if missing else ""
        peak = words.as_bytes(one.median("peak_reserved_bytes"))
        yield plots.add(
            figures.memory(plots.graph, one, scale), one.name,
            f"{one.name}: memory over the operations of the trace, at most "
            f"{peak} reserved. {note}", note)


def map_words(found):
    segments, blocks = figures.map_pieces(found)
    holes = figures.free_pieces(found)
    said = (f"{words.counted(len(blocks), 'block')} in "
            f"{words.counted(len(segments), 'segment')}")
    if not holes:
        return said + "; nothing is free."
    return (f"{said}; {words.as_bytes(sum(holes))} free in "
            f"{words.counted(len(holes), 'piece')}, the largest of "
            f"{words.as_bytes(max(holes))}.")


def map_plots(plots, comparison):
    for one in comparison.ran:
        if figures.map_pieces(one.first("map") or {})[0]:
            said = map_words(one.first("map"))
            yield plots.add(figures.address_map(plots.graph, one), one.name,
                            f"{one.name}: {said}", said)


def section(plots, number, comparison):
    """Plots are numbered in the order in which the page has them."""
    return {
        "id": f"c{number}", "title": comparison.heading(),
        "says": comparison.said and comparison.said["says"],
        "facts": about.recording(comparison.about),
        "how": list(about.how(comparison)),
        "findings": findings.findings(comparison),
        "has_run": bool(comparison.ran), "refused": comparison.refused,
        "bars": list(bar_plots(plots, comparison)),
        "distribution": distribution_plot(plots, comparison),
        "memory": list(memory_plots(plots, comparison)),
        "maps": list(map_plots(plots, comparison)),
        "rounded": tables.rounded(comparison),
        "exact": tables.exact(comparison)}


def distinct(rows, name):
    found = []
    for row in rows:
        value = row.get(name)
        if value is not None and value not in found:
            found.append(value)
    return found


def provenance(rows):
    """(title, words) of what the numbers were measured with."""
    dates = sorted(map(str, distinct(rows, "date")))
    if len(dates) > 2:
        dates = [f"{dates[0]} to {dates[-1]}"]
    for title, found in (
            ("machine", map(about.machine, distinct(rows, "machine"))),
            ("device", distinct(rows, "device")),
            ("driver", distinct(rows, "driver")),
            ("commit", map(about.commit, distinct(rows, "commit"))),
            ("date", dates)):
        said = "; ".join(map(str, found))
        if said:
            yield title, said


def numbers(comparisons):
    """What the tables show, for programs."""
    return [{"trace": one.trace, "mode": one.mode, "threads": one.threads,
             "limit_bytes": one.limit_bytes, "lag": one.lag,
             "subjects": [{"subject": subject.name,
                           "refused": subject.refused, **subject.values}
                          for subject in one.subjects.values()]}
            for one in comparisons]


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


def text_of(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def template(jinja):
    made = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True)
    return made.from_string(text_of("page.html"))


def render(libraries, rows, comparisons, others):
    """The page as a text."""
    order = list(dict.fromkeys(name for one in comparisons
                               for name in one.subjects))
    plots = Plots(libraries.graph, order)
    sections = [section(plots, number, one)
                for number, one in enumerate(comparisons)]
    scripts = (libraries.plotly_script, text_of("script.js"))
    return template(libraries.jinja).render(
        moiety=about.MOIETY, names=words.joined(order),
        subjects=about.subjects(order), warnings=list(about.warnings(rows)),
        verdicts=findings.verdicts(comparisons),
        measured=about.measured(rows),
        glance=list(tables.glance(comparisons, order))
        if len(comparisons) > 1 else [],
        sections=sections, series=figures.SERIES, line_styles=LINE_STYLES,
        provenance=provenance(rows), row_count=len(rows), others=others,
        glossary=words.GLOSSARY, policy=allowed(scripts),
        css=text_of("style.css"), numbers=script_json(numbers(comparisons)),
        figures=script_json(plots.figures), scripts=scripts)
