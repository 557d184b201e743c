# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows of a pool, an arena, a tenant or a block: what
_repr_html_() of the objects in C calls."""

from html import escape

from moiety import _native
from moiety._report.words import as_bytes

SPACES = (_native.Pool, _native.HostArena)


def any_amount(limit):
    return as_bytes(limit) if limit else "any amount"


def space_rows(space):
    stats = space.stats()
    yield "in use", as_bytes(stats.allocated_bytes_current)
    yield "at most so far", as_bytes(stats.allocated_bytes_peak)
    yield "reserved", as_bytes(stats.reserved_bytes_current)
    yield "limit", as_bytes(space.limit)
    yield "blocks", f"{stats.allocation_current:,}"
    if isinstance(space, _native.Pool):
        yield "memory", space.memory
    else:
        yield "nodes", ", ".join(map(str, stats.host.nodes))


def tenant_rows(tenant):
    stats = tenant.stats()
    yield "in use", as_bytes(stats.live_bytes)
    yield "at most so far", as_bytes(stats.peak_bytes)
    yield "budget", any_amount(stats.budget_bytes)
    yield "refused", f"{stats.refusal_count:,}"
    yield "of", repr(tenant.pool)


def block_rows(block):
    yield "size", as_bytes(block.nbytes)
    yield "address", f"{block.address:#x}"
    is_host = isinstance(block, _native.HostBlock)
    yield "of", repr(block.arena if is_host else block.pool)
    if block.tenant is not None:
        yield "tenant", block.tenant.name


def title_of(shown):
    name = f"moiety.{type(shown).__name__}"
    if isinstance(shown, SPACES):
        return f"{name}, device {shown.device}"
    if isinstance(shown, _native.Tenant):
        return f"{name} {shown.name!r}" if shown.name else name
    return name


def rows_of(shown):
    if isinstance(shown, SPACES):
        return space_rows(shown)
    return tenant_rows(shown) if isinstance(shown, _native.Tenant) \
        else block_rows(shown)


def html_of(shown):
    """A small table; for what is closed or freed, as repr() has it."""
    is_there = getattr(shown, "is_open", True) and getattr(
        shown, "is_live", True)
    try:
        rows = list(rows_of(shown)) if is_there else []
        title = title_of(shown) if rows else repr(shown)
    except _native.Error:  # after a fork, or closed meanwhile
        rows, title = [], repr(shown)
    # A number and its unit, and an address, stay on one line.
    cells = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: right">{escape(value)}</td></tr>'
        for name, value in rows)
    body = f"<tbody>{cells}</tbody>" if rows else ""
    return (f'<table><caption style="text-align: left">{escape(title)}'
            f"</caption>{body}</table>")
