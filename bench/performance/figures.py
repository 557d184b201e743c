# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/performance.md: what each shows, and its numbers out of the
rows of bench/results."""

import collections
import json
import statistics

# `values`: of each line, by subject, (middle, least, most). `low`, `high`: ends of
# the axis. `better`: "less" or "more". `part`: the code that it measures
# (digest.py).
Figure = collections.namedtuple(
    "Figure", "name title unit axis is_log better files part subjects values")

NAMES = {
    "moiety": "Moiety, driver memory",
    "mapped": "Moiety, mapped",
    "native": "PyTorch",
    "expandable": "PyTorch, expandable",
    "best-fit": "PyTorch's algorithm",
    "best-fit-expandable": "the same, expandable",
    "cuda-async": "cudaMallocAsync",
    "rmm-pool": "RMM pool",
    "rmm-arena": "RMM arena",
    "cupy": "CuPy's pool",
    "cupy_moiety": "CuPy on Moiety",
    "mimalloc": "mimalloc (host memory)",
    "mutex": "buddy behind a mutex",
    "lists": "no-op lists",
}
ALIKE = {"moiety-mapped": "mapped", "moiety_mapped": "mapped",
         "cuda_async": "cuda-async", "offsets-mutex": "mutex",
         "torch": "native"}


class NoRows(Exception):
    """A figure has nothing to show."""


def rows_of(folder, name):
    with open(f"{folder}/{name}", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def spread(numbers):
    return (statistics.median(numbers), min(numbers), max(numbers))


def gathered(samples):
    """{line: {subject: (middle, least, most)}} of (line, subject, number)."""
    found = {}
    for line, subject, number in samples:
        subject = ALIKE.get(subject, subject)
        if subject in NAMES and number is not None:
            found.setdefault(line, {}).setdefault(subject, []).append(number)
    if not found:
        raise NoRows
    return {line: {subject: spread(numbers)
                   for subject, numbers in subjects.items()}
            for line, subjects in found.items()}


def server(rows):
    return gathered((f"{row['threads']} threads", row["subject"],
                     row["requests_per_s"])
                    for row in rows if row.get("kind") == "torch-server")


TRACES = ("gpt", "gpt-checkpointed", "train", "train-checkpointed", "serving",
          "server", "frame")


def trace_of(row):
    return row["trace"]["file"].split(".")[0]


def replays(rows):
    idle = [row for row in rows
            if row.get("kind") == "replay" and row["lag"] == "idle"
            and not row["limit_bytes"]]
    return sorted(idle, key=lambda row: TRACES.index(trace_of(row)))


def memory(rows):
    return gathered((trace_of(row), row["subject"],
                     row["peak_reserved_bytes"] / row["peak_live_bytes"])
                    for row in replays(rows) if row["peak_live_bytes"])


def latency(rows):
    return gathered(
        (f"{trace_of(row)}, {quantile.replace('p99', '99 %')}",
         row["subject"], row["latency_ns"]["alloc"][quantile])
        for row in replays(rows) if trace_of(row) in ("gpt", "server")
        for quantile in ("median", "p99"))


PROGRAMS = {
    "finetune": "LoRA", "generation": "generation",
    "detection": "Mask R-CNN", "graphs": "GAT", "classification": "BERT",
    "vision": "ViT", "segmentation": "DeepLabV3", "translation": "T5",
}


def programs(rows):
    runs = [row for row in rows if row.get("kind") == "torch-program"]
    live = {row["program"]: row["live_peak_bytes"] for row in runs
            if row["allocator"] == "native"}
    return gathered((PROGRAMS.get(row["program"], row["program"]),
                     row["allocator"],
                     row["reserved_peak_bytes"] / live[row["program"]])
                    for row in runs)


NOT_STEPS = ("launches", "processor", "rest")


def steps_ms(row):
    return [sum(ms for part, ms in turn.items() if part not in NOT_STEPS)
            for turn in row["turns"]]


def steps(rows):
    """Ratios of turns beside each other: the median and the quartiles."""
    ratios, before = {}, None
    for row in rows:
        if row.get("kind") != "torch-turns":
            continue
        if row["subject"] != "moiety":
            before = row
            continue
        name = PROGRAMS.get(row["program"], row["program"].upper())
        line = (f"{name}, expandable" if before["subject"] == "expandable"
                else name)
        ratios.setdefault(line, []).extend(
            mine / other for mine, other in zip(steps_ms(row),
                                                steps_ms(before)))
    if not ratios:
        raise NoRows
    found = {}
    for line, numbers in ratios.items():
        quarter = statistics.quantiles(numbers, n=4)
        found[line] = {"mapped": (statistics.median(numbers), quarter[0],
                                  quarter[2])}
    return found


WORKLOADS = {"pair": "pair 64 KiB", "mixed": "mixed ≤ 2 MiB",
             "rmm-random": "random ≤ 4 MiB"}


def calls(rows):
    cells = [row for row in rows
             if row.get("workload") in WORKLOADS and not row.get("streams")
             and row["threads"] in (1, 4, 16)]
    cells.sort(key=lambda row: (list(WORKLOADS).index(row["workload"]),
                                row["threads"]))
    return gathered((f"{WORKLOADS[row['workload']]} · {row['threads']}",
                     row["subject"], row["ns_per_op_median"]) for row in cells)


def limits(rows):
    return gathered(
        (f"{row['factor']:g} × live" if row["factor"] else "no limit",
         row["subject"], row["mean_ns"])
        for row in rows if row.get("kind") == "limit"
        and row["part"] == "limits" and row["lag"] == "idle")


def one_stream(rows):
    return gathered((f"{WORKLOADS[row['workload']]} · {row['threads']}",
                     row["subject"], row["ns_per_op_median"])
                    for row in rows if row.get("streams") == 1
                    and row.get("workload") in WORKLOADS)


def size_text(size_bytes):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


OPERATIONS = {"device memory": "pair", "live device memory": "live",
              "mixed device memory": "mixed"}


def python(rows):
    """CuPy's calls, on its own pool and on Moiety."""
    wanted = [row for row in rows
              if row.get("what") == "latency" and row["ns_median"]
              and row["subject"] in ("cupy", "cupy_moiety")
              and row["threads"] in (1, 8) and row["operation"] in OPERATIONS]
    wanted.sort(key=lambda row: (list(OPERATIONS).index(row["operation"]),
                                 row["size_bytes"], row["threads"]))
    return gathered((f"{OPERATIONS[row['operation']]} "
                     f"{size_text(row['size_bytes'])} · {row['threads']}",
                     row["subject"], row["ns_median"]) for row in wanted)


def figure(name, title, unit, maker, files, part, subjects, axis, is_log=True,
           better="less"):
    return name, (Figure(name, title, unit, axis, is_log, better, files, part,
                         subjects.split(), None), maker)


FIGURES = dict([
    figure("server", "Requests of a libtorch server", "requests/s", server,
           ["torch-h200-server.jsonl"], "torch", "native moiety mapped lists",
           (0, 16000), is_log=False, better="more"),
    figure("memory", "Reserved ÷ live: recordings", "times", memory,
           ["performance-h200.jsonl"], "core",
           "best-fit best-fit-expandable cuda-async rmm-pool rmm-arena "
           "moiety mapped", (1, 16)),
    figure("programs", "Reserved ÷ live: PyTorch programs", "times", programs,
           ["torch-h200-programs.jsonl"], "torch", "native expandable mapped",
           (1, 4)),
    figure("steps", "Step on mapped memory ÷ PyTorch's", "ratio", steps,
           ["torch-h200-turns.jsonl"], "torch", "mapped", (0.8, 1.3),
           is_log=False),
    figure("calls", "Allocation and free, by threads", "ns", calls,
           ["performance-h200.jsonl"], "core",
           "native cuda-async rmm-pool rmm-arena mutex mimalloc moiety mapped",
           (10, 1000000)),
    figure("latency", "One allocation of a recording", "ns", latency,
           ["performance-h200.jsonl"], "core",
           "best-fit best-fit-expandable cuda-async rmm-pool rmm-arena moiety "
           "mapped", (10, 1000000)),
    figure("limits", "A pair near a limit, 16 threads", "ns", limits,
           ["performance-h200.jsonl"], "core",
           "best-fit best-fit-expandable moiety mapped", (100, 1000000)),
    figure("one-stream", "All threads on one stream", "ns", one_stream,
           ["performance-h200.jsonl"], "core",
           "native rmm-pool mutex moiety mapped", (100, 1000000)),
    figure("python", "CuPy's calls, by size and threads", "ns", python,
           ["python-h200-latency.jsonl"], "python", "cupy cupy_moiety",
           (100, 100000)),
])


def made(name, folder):
    """The figure with its numbers, as far as there are rows. NoRows: none are."""
    shown, maker = FIGURES[name]
    rows = [row for file in shown.files for row in rows_of(folder, file)]
    values = maker(rows)
    there = {subject for line in values.values() for subject in line}
    return shown._replace(
        values=values,
        subjects=[one for one in shown.subjects if one in there])
