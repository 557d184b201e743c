# SPDX-License-Identifier: Apache-2.0
"""Statistics in Prometheus' text format, version 0.0.4."""

# Of each key of moiety_pool_stats: the metric, its labels, and what it is. What ends
# with _total is a counter, all else a gauge.
_STEP = "Times that a step of the way out of memory was taken."
_METRICS = {
    "segment.all.current": (
        "segments", {}, "Segments that the pool has of its source."),
    "segment.all.allocated": (
        "segments_reserved_total", {}, "Segments ever taken from the source."),
    "segment.all.freed": (
        "segments_released_total", {}, "Segments ever given back to it."),
    "allocation.all.current": ("blocks", {}, "Blocks in use."),
    "allocation.all.allocated": (
        "allocations_total", {}, "Blocks ever given out."),
    "allocation.all.freed": ("frees_total", {}, "Blocks ever freed."),
    "allocated_bytes.all.current": (
        "in_use_bytes", {}, "What the blocks in use hold."),
    "allocated_bytes.all.peak": (
        "in_use_peak_bytes", {},
        "The most of it at any time, within what caches can hold."),
    "allocated_bytes.all.allocated": (
        "given_out_bytes_total", {}, "What all blocks ever given out held."),
    "allocated_bytes.all.freed": (
        "freed_bytes_total", {}, "What all blocks ever freed held."),
    "requested_bytes.all.allocated": (
        "requested_bytes_total", {}, "What was ever asked for."),
    "reserved_bytes.all.current": (
        "reserved_bytes", {}, "What the pool has of its source."),
    "reserved_bytes.all.peak": (
        "reserved_peak_bytes", {}, "The most of it at any time."),
    "num_alloc_retries": (
        "allocation_retries_total", {},
        "Allocations that had to do more than to grow the pool."),
    "num_ooms": (
        "out_of_memory_total", {}, "Allocations that failed for want of "
        "memory."),
    "cached_bytes": ("cached_bytes", {}, "Free, in caches of threads."),
    "retiring_bytes": (
        "retiring_bytes", {}, "Freed, but work that uses it is not over."),
    "free_bytes": ("free_bytes", {}, "Free, for all threads."),
    "longest_run_bytes": (
        "longest_free_run_bytes", {}, "The longest free run of 2 MiB units."),
    "limit_bytes": ("limit_bytes", {}, "Most that the pool may reserve."),
    "unreleased_bytes": (
        "unreleased_bytes", {}, "What the source refused to take back."),
    "cache_hits": (
        "cache_lookups_total", {"result": "hit"},
        "Allocations, by whether the thread's cache served them."),
    "cache_misses": ("cache_lookups_total", {"result": "miss"}, ""),
    "ages_closed": (
        "ages_closed_total", {},
        "Batches of freed blocks that left caches."),
    "ages_guarded": (
        "ages_guarded_total", {},
        "Batches that had to wait for a capture guard's end."),
    "events_recorded": (
        "events_recorded_total", {"where": "stream"}, "Events recorded."),
    "context_events_recorded": (
        "events_recorded_total", {"where": "context"}, ""),
    "stream_waits": (
        "stream_waits_total", {}, "Times that a stream was made to wait."),
    "captures_disturbed": (
        "captures_disturbed_total", {},
        "Captures that were met without a guard."),
    "threads": ("threads", {}, "Threads that have caches in the pool."),
    "streams": ("streams", {}, "Streams that the pool keeps apart."),
    "double_frees_found": (
        "double_frees_found_total", {}, "Blocks that were freed twice."),
    "cache_bound_bytes": (
        "cache_bound_bytes", {}, "What all caches together may hold now."),
    "cache_bound_halvings": (
        "cache_bound_halvings_total", {},
        "Times that this was halved for want of memory."),
    "mapped.moves": (
        "mapped_moves_total", {},
        "Pieces of mapped memory that moved to another address."),
    "mapped.moved_bytes": (
        "mapped_moved_bytes_total", {}, "Bytes of these pieces."),
    "mapped.left_bytes": (
        "mapped_left_bytes", {},
        "Addresses that they left and that wait for the device's work."),
    "mapped.paused_bytes": (
        "mapped_paused_bytes", {},
        "Addresses of arenas that are paused, without memory."),
    "others.asked": (
        "others_asked_total", {},
        "Pools of the device that were asked when the driver had no memory."),
    "others.got_bytes": (
        "others_got_bytes_total", {}, "Bytes that these gave back."),
    "others.given_bytes": (
        "others_given_bytes_total", {},
        "Bytes that this pool gave back for others."),
} | {f"oom.{step}": ("oom_steps_total", {"step": step}, _STEP)
     for step in ("done", "grow", "own_cache", "orphans",
                  "idle_threads", "trim", "hand_over", "callbacks", "wait",
                  "last_look")}


def _escaped(text):
    return (text.replace("\\", r"\\").replace("\n", r"\n")
            .replace('"', r'\"'))


def _line(name, labels, value):
    inner = ",".join(f'{key}="{_escaped(str(one))}"'
                     for key, one in labels.items())
    return f"moiety_{name}{{{inner}}} {value}"


def _labels_of(pool):
    return {"pool": pool["id"], "device": pool["device"],
            "memory": pool["memory"], "source": pool["source"]}


def exposition(answer):
    """Returns the numbers of stats() in the text format of Prometheus. Keys that this
    version does not know are not in it."""
    families = {"info": ("The library's version.",
                         [_line("info", {"version": answer["version"]}, 1)]),
                "pool_readable": ("Whether the pool could be asked.", [])}
    for pool in answer["pools"]:
        labels = _labels_of(pool)
        stats = pool.get("stats")
        families["pool_readable"][1].append(
            _line("pool_readable", labels, int(stats is not None)))
        for key, (name, further, what) in _METRICS.items():
            if stats and key in stats:
                families.setdefault(name, (what, []))[1].append(
                    _line(name, labels | further, stats[key]))
    lines = []
    for name, (what, samples) in families.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        if samples:
            lines += [f"# HELP moiety_{name} {what}",
                      f"# TYPE moiety_{name} {kind}", *samples]
    return "\n".join(lines) + "\n"
