# SPDX-License-Identifier: Apache-2.0
"""The numbers of pools, arenas and tenants at one moment: what stats() returns.
The C module makes them of dictionaries."""


class _Stats:
    """Numbers by the names of attributes, and by keys."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers):
        self._numbers = numbers

    def as_dict(self):
        """Returns the numbers as a new dictionary. Its keys are those of
        PyTorch where PyTorch has the number."""
        return dict(self._numbers)

    def __eq__(self, other):
        return (self._numbers == other._numbers
                if type(other) is type(self) else NotImplemented)

    __hash__ = None

    def __repr__(self):
        return f"<moiety.{type(self).__name__}: {self._numbers}>"


def _number(key, text):
    return property(lambda self: self._numbers[key], doc=text)


class PoolStats(_Stats):
    """The numbers of a Pool at one moment. Pool.stats() returns it."""

    __slots__ = ()

    segment_current = _number(
        "segment.all.current",
        "Segments that the pool has.")
    segment_allocated = _number(
        "segment.all.allocated",
        "Segments ever reserved.")
    segment_freed = _number(
        "segment.all.freed",
        "Segments ever returned to the driver.")
    allocation_current = _number("allocation.all.current", "Blocks in use.")
    allocation_allocated = _number(
        "allocation.all.allocated",
        "Blocks ever allocated.")
    allocation_freed = _number("allocation.all.freed", "Blocks ever freed.")
    allocated_bytes_current = _number(
        "allocated_bytes.all.current",
        "Bytes in use.")
    allocated_bytes_peak = _number(
        "allocated_bytes.all.peak",
        "Most bytes in use at one time.")
    allocated_bytes_allocated = _number(
        "allocated_bytes.all.allocated",
        "Bytes ever allocated.")
    allocated_bytes_freed = _number(
        "allocated_bytes.all.freed",
        "Bytes ever freed.")
    requested_bytes_allocated = _number(
        "requested_bytes.all.allocated",
        "Bytes ever requested, before rounding.")
    reserved_bytes_current = _number(
        "reserved_bytes.all.current",
        "Bytes that are reserved.")
    reserved_bytes_peak = _number(
        "reserved_bytes.all.peak",
        "Most bytes reserved at one time.")
    alloc_retries = _number(
        "num_alloc_retries",
        "Allocations that needed more steps than growing.")
    ooms = _number("num_ooms", "Allocations that failed for lack of memory.")
    cached_bytes = _number("cached_bytes", "Free bytes in caches of threads.")
    retiring_bytes = _number(
        "retiring_bytes",
        "Freed bytes that wait for queued work.")
    free_bytes = _number("free_bytes", "Free bytes that wait for no work.")
    longest_run_bytes = _number(
        "longest_run_bytes",
        "The longest free run of 2 MiB units.")
    limit_bytes = _number("limit_bytes", "The limit.")
    unreleased_bytes = _number(
        "unreleased_bytes",
        "Bytes that the driver refused to take back.")
    cache_hits = _number(
        "cache_hits",
        "Allocations from the cache of the thread.")
    cache_misses = _number("cache_misses", "Allocations from elsewhere.")
    cache_bound_bytes = _number(
        "cache_bound_bytes",
        "The most bytes that caches keep.")
    cache_bound_halvings = _number(
        "cache_bound_halvings",
        "How often that bound was halved.")
    ages_closed = _number(
        "ages_closed",
        "Groups of freed blocks that an event closed.")
    ages_guarded = _number(
        "ages_guarded",
        "Events that a capture guard put off.")
    events_recorded = _number("events_recorded", "Events recorded on streams.")
    context_events_recorded = _number(
        "context_events_recorded",
        "Events recorded in contexts.")
    stream_waits = _number(
        "stream_waits",
        "How often a stream was made to wait.")
    captures_disturbed = _number(
        "captures_disturbed",
        "Captures that an event disturbed for lack of a guard.")
    threads = _number("threads", "Threads that use the pool.")
    streams = _number("streams", "Streams that the pool knows.")
    double_frees_found = _number(
        "double_frees_found",
        "Double frees that were found.")

    @property
    def oom_steps(self):
        """How often allocations that missed took each step, as a dictionary by
        the names of steps, such as "wait". docs/out-of-memory.md explains the
        steps."""
        return {key[4:]: value for key, value in self._numbers.items()
                if key.startswith("oom.")}

    mapped_moves = _number(
        "mapped.moves",
        "Pieces of mapped memory that moved.")
    mapped_moved_bytes = _number("mapped.moved_bytes", "Bytes of them.")
    mapped_left_bytes = _number(
        "mapped.left_bytes",
        "Addresses that moved pieces left behind, in bytes.")
    mapped_paused_bytes = _number(
        "mapped.paused_bytes",
        "Bytes of paused tenants.")
    others_asked = _number(
        "others.asked",
        "How often other pools were asked for memory.")
    others_got_bytes = _number(
        "others.got_bytes",
        "Bytes that they returned to the device.")
    others_given_bytes = _number(
        "others.given_bytes",
        "Bytes that this pool returned for others.")


class HostStats(_Stats):
    """The place of the memory of a HostArena. ArenaStats.host is one."""

    __slots__ = ()

    nodes = _number("nodes", "The NUMA nodes, as a list of numbers.")
    pinned_bytes = _number("pinned_bytes", "Bytes that are pinned.")
    region_count = _number("region_count", "Regions of memory.")
    pages_asked = _number("pages_asked", "Pages whose node was read back.")
    pages_near = _number("pages_near", "Pages of them on a wanted node.")
    pages_elsewhere = _number(
        "pages_elsewhere",
        "Pages of them on other nodes.")
    page_kind_bytes = _number(
        "page_kind_bytes",
        "Bytes by the kind of page, as a dictionary.")
    stage_ns = _number(
        "stage_ns",
        "Nanoseconds by the stage of reserving, as a dictionary.")
    touch_threads = _number("touch_threads", "Threads that touch new memory.")
    fallbacks = _number(
        "fallbacks",
        "The wishes that were not met, as a bit for each.")
    unreleased_count = _number(
        "unreleased_count",
        "Regions that could not be returned.")


class ArenaStats(PoolStats):
    """The numbers of a HostArena at one moment. HostArena.stats() returns it."""

    __slots__ = ()

    @property
    def host(self):
        """The place of the memory, as HostStats."""
        return HostStats(self._numbers["host"])


class TenantStats(_Stats):
    """The numbers of a Tenant at one moment. Tenant.stats() returns it."""

    __slots__ = ()

    name = _number("name", "The name of the tenant.")
    budget_bytes = _number("budget_bytes", "The budget; 0 is no budget.")
    live_bytes = _number(
        "live_bytes",
        "Bytes that the blocks hold, after rounding.")
    peak_bytes = _number("peak_bytes", "Most bytes at one time.")
    allocation_count = _number(
        "allocation_count",
        "Allocations that succeeded.")
    refusal_count = _number(
        "refusal_count",
        "Allocations that the budget refused.")
