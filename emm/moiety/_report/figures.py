# SPDX-License-Identifier: Apache-2.0
"""The plots of a report, for Plotly. Colours that hang on light or dark are
the page's; names are escaped here, as Plotly reads tags in a text."""

import html
import math

from moiety._report import words

MAP_COLUMNS = 48
MAP_ROWS = 16


def map_pieces(found):
    """Segments and blocks, each sorted by address."""
    return tuple(sorted((int(address), int(size))
                        for address, size in found.get(name) or () if size)
                 for name in ("segments", "blocks"))


def map_placed(segments, blocks):
    """Blocks as (offset, bytes) where the segments lie end to end."""
    base, index = 0, 0
    for start, size in segments:
        while index < len(blocks) and blocks[index][0] < start + size:
            address, length = blocks[index]
            index += 1
            if address >= start:
                yield (base + address - start,
                       min(length, start + size - address))
        base += size


def free_pieces(found):
    """Bytes of each hole between blocks, of each segment by itself."""
    segments, blocks = map_pieces(found)
    holes, base, taken = [], 0, list(map_placed(segments, blocks))
    index = 0
    for _, size in segments:
        at = base
        while index < len(taken) and taken[index][0] < base + size:
            offset, length = taken[index]
            if offset > at:
                holes.append(offset - at)
            at = max(at, offset + length)
            index += 1
        if at < base + size:
            holes.append(base + size - at)
        base += size
    return holes


def map_cells(found):
    """Lines of MAP_COLUMNS cells, each with the percentage that is handed out;
    None after the end."""
    segments, blocks = map_pieces(found)
    total = sum(size for _, size in segments)
    count = min(MAP_COLUMNS * MAP_ROWS, total)
    used = [0.0] * count
    for offset, length in map_placed(segments, blocks):
        first, last = offset * count / total, (offset + length) * count / total
        for cell in range(int(first), min(int(last) + 1, count)):
            used[cell] += max(0, min(last, cell + 1) - max(first, cell))
    line = [min(100, round(100 * share, 1)) for share in used]
    line += [None] * (-count % MAP_COLUMNS)
    return [line[at:at + MAP_COLUMNS] for at in range(0, len(line), MAP_COLUMNS)]


# Told apart by those who see few colours (after Okabe and Ito), darkened where
# one would not stand out on white; dashes tell the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B86A97", "#A07000", "#7B6FC4",
           "#7A7A7A")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
# Field, title, look. Reserved lies behind, so that what of it is seen is what
# the program did not need.
SERIES = (
    ("reserved", "reserved", "#7A7A7A", "solid", "rgba(128,128,128,0.45)"),
    ("live", "live", "#0072B2", "solid", "rgba(0,114,178,0.75)"),
    ("handed", "handed out", "#009E73", "dot", None),
    ("cached", "cached", "#D55E00", "dash", None),
    ("retiring", "retiring", "#B86A97", "dashdot", None))
POINTS = 600


def figure(graph, data, layout, height):
    """Checked by Plotly, as a dictionary."""
    frame = {"height": height, "margin": {"l": 10, "r": 24, "t": 8, "b": 28},
             "dragmode": False, "hovermode": "closest", "template": "none",
             "font": {"size": 13}, "paper_bgcolor": "rgba(0,0,0,0)",
             "plot_bgcolor": "rgba(0,0,0,0)"}
    made = graph.Figure(data=data, layout={**frame, **layout})
    return made.to_plotly_json()


def colour(order, name):
    return COLOURS[order.index(name) % len(COLOURS)]


def dash(order, name):
    return DASHES[order.index(name) % len(DASHES)]


def spread(values):
    """Error bars from the least to the greatest of the repeats."""
    return {"type": "data", "symmetric": False, "thickness": 2,
            "color": "#8A8F98",
            "array": [one["max"] - one["median"] for one in values],
            "arrayminus": [one["median"] - one["min"] for one in values]}


def linear_ticks(greatest, unit):
    """At most five, from 0 on, at 1, 2 or 5 of what bytes are shown in."""
    scale = 1
    while unit is words.as_bytes and greatest / scale >= 1024:
        scale *= 1024
    step = scale * 10.0 ** math.floor(math.log10(greatest / scale))
    step = next(step * part for part in (0.5, 1, 2, 5)
                if greatest / (step * part) < 4)
    if unit is words.as_count:
        step = max(1, step)
    return [step * at for at in range(int(greatest / step) + 2)]


def log_ticks(least, greatest):
    """Powers of ten. The first is below the least, to leave it some bar."""
    first = math.ceil(math.log10(least)) - 1
    last = math.ceil(math.log10(greatest))
    return [10.0 ** at
            for at in range(first, last + 1, (last - first) // 5 + 1)]


def axis(values, unit, log):
    """An axis for lengths of bars, or for times, with units at its ticks."""
    known = [value for value in values if value] or [1]
    ticks = log_ticks(min(known), max(known)) if log else \
        linear_ticks(max(known), unit)
    made = {"tickvals": ticks, "automargin": True, "fixedrange": True,
            "tickangle": 0,
            "ticktext": [words.short(unit(tick)) for tick in ticks]}
    ends = [ticks[0], max(known) * 1.04]
    if log:
        return {**made, "type": "log",
                "range": [math.log10(ends[0]), math.log10(max(known) * 1.3)]}
    return {**made, "type": "linear", "range": ends}


def bars(graph, comparison, order, names, unit, log):
    """A group of bars for each subject; its numbers stand below its name, so
    that an unknown one is told from a zero and needs no place in the plot."""
    subjects = comparison.ran[::-1]
    # A subject that served less may well look better.
    labels = [html.escape(words.cut(one.name))
              + (", failed" if one.has_failed else "") + "<br><b>"
              + " / ".join(unit(one.median(name)) for name, _ in names)
              + "</b>" for one in subjects]
    data, ends = [], []
    # Plotly draws a group from below.
    for at, (name, title) in reversed(list(enumerate(names))):
        known = [(y, one) for y, one in enumerate(subjects)
                 if one.values[name] is not None
                 and not (log and not one.median(name))]
        ends += [one.values[name]["max"] for _, one in known]
        ends += [one.median(name) for _, one in known]
        data.append({
            "type": "bar", "orientation": "h", "name": title,
            "x": [one.median(name) for _, one in known],
            "y": [y for y, _ in known],
            "text": [unit(one.median(name)) for _, one in known],
            "textposition": "none",
            "hovertemplate": title + ": %{text}<extra></extra>",
            "marker": {"color": [colour(order, one.name) for _, one in known],
                       "pattern": {"shape": "/" if at else "",
                                   "fillmode": "replace"}},
            "error_x": spread([one.values[name] for _, one in known])})
    layout = {
        "xaxis": {**axis(ends, unit, log), "showgrid": True},
        "yaxis": {"tickvals": list(range(len(subjects))), "ticktext": labels,
                  "automargin": True, "fixedrange": True,
                  "range": [-0.5, len(subjects) - 0.5], "zeroline": False},
        "barmode": "group", "showlegend": False, "bargap": 0.3}
    return figure(graph, data, layout, 40 + 48 * len(subjects))


def latency(graph, comparison, order):
    return bars(graph, comparison, order,
                (("median_ns", "median"), ("p99_ns", "p99")), words.as_time,
                True)


def thinned(timeline, name):
    """Positions of at most about POINTS points: of each stretch the one where
    most is reserved, so that no peak is lost."""
    count = len(timeline["op"])
    step = max(1, -(-count // POINTS))
    height = timeline.get(name) or [0] * count
    return [max(range(start, min(start + step, count)),
                key=lambda at: height[at] or 0)
            for start in range(0, count, step)]


def scale_of(subjects):
    """The unit for all of a comparison's curves, so that they compare."""
    peak = max((value or 0 for one in subjects
                for name, *_ in SERIES
                for value in (one.first("timeline") or {}).get(name) or ()),
               default=0)
    power = 0
    while peak >= 1024 and power < len(words.BYTE_UNITS) - 1:
        peak /= 1024
        power += 1
    return words.BYTE_UNITS[power], 1024 ** power, peak


def unknown_series(timeline):
    return [title for name, title, *_ in SERIES
            if all(value is None for value in timeline.get(name) or ())]


def memory(graph, subject, scale):
    """Bytes over the operations of the trace."""
    unit, divisor, peak = scale
    timeline = subject.first("timeline")
    data = []
    for name, title, ink, line, fill in SERIES:
        if title in unknown_series(timeline):
            continue
        points = thinned(timeline, "live" if name == "live" else "reserved")
        data.append({
            "type": "scatter", "mode": "lines", "name": title,
            "x": [timeline["op"][point] for point in points],
            "y": [None if timeline[name][point] is None
                  else timeline[name][point] / divisor for point in points],
            "line": {"color": ink, "dash": line, "shape": "hv", "width": 2},
            "fill": "tozeroy" if fill else "none",
            "fillcolor": fill or "rgba(0,0,0,0)",
            "hovertemplate": title + ": %{y:.4~g}" + words.JOIN + unit
            + "<br>operation %{x:,}<extra></extra>"})
    layout = {
        "xaxis": {"title": {"text": "operation of the trace"},
                  "fixedrange": True, "automargin": True, "nticks": 5},
        "yaxis": {"title": {"text": unit}, "fixedrange": True,
                  "automargin": True, "range": [0, peak * 1.05 or 1]},
        "showlegend": False}
    return figure(graph, data, layout, 250)


def distribution(graph, comparison, order):
    """Of each subject how many operations took at most so long."""
    data, ends = [], []
    for one in comparison.ran:
        counts = one.histogram()
        total = sum(count for _, count in counts)
        if not total:
            continue
        ends += [max(ns, 1) for ns, _ in counts]
        done, shares = 0, []
        for _, count in counts:
            done += count
            shares.append(100 * done / total)
        data.append({
            "type": "scatter", "mode": "lines",
            "name": html.escape(words.cut(one.name)),
            "x": [max(ns, 1) for ns, _ in counts], "y": shares,
            "line": {"color": colour(order, one.name), "width": 2,
                     "dash": dash(order, one.name), "shape": "hv"},
            "hovertemplate":
                f"%{{y:.2f}}{words.JOIN}% took at most %{{x:,}}{words.JOIN}ns"
                "<extra></extra>"})
    if not data:
        return None
    layout = {
        "xaxis": {**axis(ends, words.as_time, True),
                  "title": {"text": "time for an operation"}},
        "yaxis": {"title": {"text": "% of operations"}, "range": [0, 101],
                  "fixedrange": True, "automargin": True},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "showlegend": True}
    return figure(graph, data, layout, 380)


def address_map(graph, subject):
    """The segments end to end, cut into lines as a text is."""
    cells = map_cells(subject.first("map"))
    data = [{"type": "heatmap", "z": cells, "zmin": 0, "zmax": 100,
             "colorscale": [[0, "#E69F00"], [0.5, "#8FA0A0"], [1, "#0072B2"]],
             "xgap": 1, "ygap": 1, "hoverongaps": False, "showscale": False,
             "hovertemplate":
                 f"%{{z:.0f}}{words.JOIN}% handed out<extra></extra>"}]
    layout = {
        "xaxis": {"visible": False, "fixedrange": True},
        "yaxis": {"visible": False, "fixedrange": True,
                  "autorange": "reversed"},
        "margin": {"l": 4, "r": 4, "t": 4, "b": 4}}
    return figure(graph, data, layout, 24 + 14 * len(cells))
