# SPDX-License-Identifier: Apache-2.0
"""What rows say of themselves, in words: the allocators, the recording, how it
was replayed, and on what. Nothing here is HTML."""

from moiety._report import words

MOIETY = ("Moiety is a GPU memory pool, a C library with a Python package. It "
          "takes large pieces of memory of the driver, hands out blocks of "
          "them, and is made for programs that allocate from many threads and "
          "on many streams.")
# Name: what it is, and what it is here for.
SUBJECTS = {
    "moiety": ("Moiety's pool on memory of the driver: a cache for each "
               "thread, before heaps of free memory.",
               "What the report is about."),
    "moiety-nocache": ("The same without caches of threads.",
                       "Shows what these caches bring and cost."),
    "moiety-mapped": ("Moiety's pool with memory that it maps itself, whose "
                      "free pieces move to where they are needed.",
                      "For limits that are tight."),
    "best-fit": ("A model in C of PyTorch's caching allocator with its "
                 "default settings: best fit, one lock. It is not PyTorch.",
                 "What many programs have now."),
    "best-fit-expandable": ("The same model with PyTorch's expandable "
                            "segments, whose pages are mapped.",
                            "What PyTorch offers against fragmentation."),
    "mutex": ("A buddy allocator with free lists and one lock. It knows no "
              "streams: with several it would hand out memory that is in use.",
              "Shows what a simple pool takes."),
    "pow2-buddy": ("The textbook's buddy allocator: powers of two, one lock. "
                   "It knows no streams: with several it would hand out "
                   "memory that is in use.",
                   "Shows how little time, and how much memory, the simplest "
                   "one takes."),
    "cuda-malloc": ("No allocator at all: cuMemAlloc() and cuMemFree() of the "
                    "driver for each block.",
                    "What any allocator has to be better than."),
    "cuda-async": ("The driver's own pool, cuMemAllocAsync(), which keeps "
                   "what it has.", "What needs no library."),
    "torch": ("PyTorch's caching allocator itself.",
              "What PyTorch's programs have."),
}
SOURCES = {"torch": "PyTorch's history of its memory", "rmm": "RMM's log",
           "moiety": "Moiety's recorder"}
RECORDED = ("reserved at the peak by the allocator that it was recorded on")


def subjects(order):
    """(name, what it is, what it is for) of those that are known."""
    return [(name, *SUBJECTS[name]) for name in order if name in SUBJECTS]


def other_info(info):
    """Of a trace, what has no sentence of its own."""
    for name, value in info.items():
        if name in ("source", "version"):
            continue
        if name == "device":
            yield f"on its device{words.JOIN}{value}"
        elif name == "reserved_before_bytes":
            if value not in (0, "0"):
                yield f"{value} bytes were reserved before it began"
        else:
            yield f"{name.replace('_', ' ')}: {value}"


def origin(info):
    """Whom a trace comes from."""
    source = info.get("source")
    if source is None:
        return []
    made = f"recorded by {SOURCES.get(source, source)}"
    if info.get("version") is not None:
        made += f", version{words.JOIN}{info['version']}"
    return [made]


def recording(about):
    """What is known of a trace, as a sentence."""
    said = [words.counted(about[name], word) for name, word in (
        ("operations", "operation"), ("threads", "thread"),
        ("streams", "stream")) if about.get(name) is not None]
    if about.get("peak_live_bytes") is not None:
        said.append(f"{words.as_bytes(about['peak_live_bytes'])} live at the "
                    "peak")
    recorded = about.get("recorded_peak_reserved_bytes")
    if recorded is not None:
        said.append(f"{words.as_bytes(recorded)} {RECORDED}")
    info = about.get("info")
    if isinstance(info, dict):
        said += [*origin(info), *other_info(info)]
    return f"{about['file']}: {', '.join(said)}." if said else about["file"]


def processors(comparison):
    """How many there were, or None where rows do not agree or do not say."""
    found = {row["machine"].get("processors")
             if isinstance(row.get("machine"), dict) else None
             for one in comparison.ran for row in one.rows}
    count = found.pop() if len(found) == 1 else None
    return count if isinstance(count, int) else None


def lag_part(name, count):
    if name == "work":
        return (f"work of {count}{words.JOIN}µs was queued behind each call, "
                "on its stream")
    if name == "fill":
        return f"each block was filled, times: {count}"
    return f"each thread waited for its stream, calls between: {count}"


def lag(value):
    """What the device did meanwhile, as a sentence."""
    if value == "idle":
        return "Nothing was queued on the device."
    if value == "held":
        return ("All streams were held from the beginning to the end, and "
                "began no work.")
    parts = [one.partition(":")[::2] for one in value.split("+")]
    if not all(name in ("work", "fill", "sync") for name, _ in parts):
        return f"The device: {value}."
    said = "; ".join(lag_part(*one) for one in parts)
    return said[0].upper() + said[1:] + "."


def replayed(comparison, count):
    """By how many threads, on how many processors."""
    threads = comparison.threads
    where = f" on {words.counted(count, 'processor')}" if count else ""
    if comparison.mode == "serial":
        return f"one thread{where}, in the order of the recording"
    many = f"{words.counted(threads, 'thread')}" if threads else "threads"
    return f"{many} at once{where}"


def runs(comparison):
    counts = sorted({len(one.rows) for one in comparison.ran})
    if counts == [1]:
        return ("One run of each allocator: whether times differ by chance "
                "cannot be told.")
    many = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return (f"{many}{words.JOIN}runs of each allocator, each in a process of "
            "its own; the median is shown.")


def how(comparison):
    """(name, words) of how a trace was replayed."""
    if not comparison.ran:
        return
    count = processors(comparison)
    yield "Replayed by", f"{replayed(comparison, count)}."
    if count and comparison.threads and comparison.threads > count:
        yield "Note", (
            f"at most {words.counted(count, 'thread')} ran at a time. A "
            "thread may lose its processor while it holds a lock, and the "
            "others wait: that is in the times.")
    yield "Memory", (
        f"{words.as_bytes(comparison.limit_bytes)} for each allocator."
        if comparison.limit_bytes else "no limit but the device's.")
    yield "Device", lag(comparison.lag)
    yield "Repeated", runs(comparison)


def commit(said):
    """As `git describe` has it."""
    plain = str(said).removesuffix("-dirty")
    return plain if plain == said else \
        f"{plain}, with changes that were not committed"


def machine(found):
    if not isinstance(found, dict):
        return str(found)
    said = []
    for name, value in found.items():
        if name == "cpu":
            said.append(str(value))
        elif name == "processors" and isinstance(value, int):
            said.append(words.counted(value, "processor"))
        else:
            said.append(f"{name.replace('_', ' ')}: {value}")
    return ", ".join(said)


def measured(rows):
    """On what machines, in short."""
    found = list(dict.fromkeys(
        machine(row["machine"]) for row in rows if row.get("machine")))
    return f"Measured on: {'; '.join(found)}." if found else None


def warnings(rows):
    """What a reader has to know before any number."""
    is_simulated = any(row.get("is_simulated") for row in rows)
    if any(row.get("is_standin") for row in rows):
        yield ("There was no GPU. The driver is Moiety's stand-in, which keeps "
               "the books as a GPU's driver does: its memory is the host's, "
               "work on a stream is a function that sleeps, and "
               + ("the times of its calls are imitated: those for memory, "
                  "events and streams keep a thread busy as long as they were "
                  "measured to do on an H200's host. " if is_simulated else
                  "its calls cost next to nothing. ")
               + "The rest of each time is the allocators' own work on this "
               "machine. So allocators are compared here, and nothing tells "
               "how fast a program is on a GPU: docs/dev/results.md has what was "
               "measured on GPUs.")
    elif is_simulated:
        yield ("The times of the driver's calls are imitated, so that how "
               "fast a GPU's program would be cannot be read here.")
