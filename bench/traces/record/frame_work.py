# SPDX-License-Identifier: Apache-2.0
"""What frame.py does with a batch of orders, in terms of an array module `xp`
(CuPy or NumPy) and of kernels over rows.

A column of strings is two arrays, as Arrow has them: the bytes of all, and
where each begins, with the end of the last.
"""

import random
from typing import Any, NamedTuple

import numpy

CUSTOMERS = 5000
NAME_BYTES_MAX = 24
NAME_BYTES_LEAST = 4
TOP = 100


class Strings(NamedTuple):
    data: Any
    offsets: Any


class Orders(NamedTuple):
    customer: Any
    price: Any
    quantity: Any
    name: Strings


def hash_row(row, data, starts, offsets, out):
    """FNV-1a, 32 bits. starts is not used: both kernels have one form."""
    value = 2166136261
    for i in range(offsets[row], offsets[row + 1]):
        value = ((value ^ int(data[i])) * 16777619) & 0xFFFFFFFF
    out[row] = value


def copy_row(row, data, starts, offsets, out):
    """The string that begins at starts[row] to its new place."""
    begin = offsets[row]
    for i in range(offsets[row + 1] - begin):
        out[begin + i] = data[starts[row] + i]


def make_orders(machine, choose, rows):
    """On the host, then on the machine. Whole numbers, so that sums do not
    depend on their order."""
    xp = machine.xp
    lengths = choose.integers(0, NAME_BYTES_MAX + 1, rows)
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)])
    data = choose.integers(97, 123, int(offsets[-1])).astype(numpy.uint8)
    return Orders(
        xp.asarray(choose.integers(0, 2 * CUSTOMERS, rows)),
        xp.asarray(choose.integers(1, 1000, rows)),
        xp.asarray(choose.integers(1, 20, rows)),
        Strings(xp.asarray(data), xp.asarray(offsets)))


def make_customers(machine):
    """(keys in order, the region of each): every second key exists."""
    xp = machine.xp
    return xp.arange(0, 2 * CUSTOMERS, 2), xp.arange(CUSTOMERS) % 17


def take_strings(machine, strings, rows):
    xp = machine.xp
    lengths = (strings.offsets[1:] - strings.offsets[:-1])[rows]
    offsets = xp.concatenate([xp.zeros(1, lengths.dtype), xp.cumsum(lengths)])
    data = machine.empty(int(offsets[-1]), numpy.uint8)
    machine.for_rows(copy_row, len(rows), strings.data, strings.offsets[rows],
                     offsets, data)
    return Strings(data, offsets)


def take(machine, orders, rows):
    return Orders(orders.customer[rows], orders.price[rows],
                  orders.quantity[rows],
                  take_strings(machine, orders.name, rows))


def filtered(machine, orders):
    """Those of some worth, with a name of some length."""
    lengths = orders.name.offsets[1:] - orders.name.offsets[:-1]
    is_kept = ((orders.price * orders.quantity > 500)
               & (lengths >= NAME_BYTES_LEAST))
    return take(machine, orders, machine.xp.nonzero(is_kept)[0])


def joined(machine, orders, customers):
    """(orders that have a customer, the region of each)"""
    xp = machine.xp
    keys, regions = customers
    places = xp.minimum(xp.searchsorted(keys, orders.customer), len(keys) - 1)
    rows = xp.nonzero(keys[places] == orders.customer)[0]
    return take(machine, orders, rows), regions[places[rows]]


def hashed(machine, strings):
    rows = len(strings.offsets) - 1
    out = machine.empty(rows, numpy.int64)
    machine.for_rows(hash_row, rows, strings.data, strings.offsets,
                     strings.offsets, out)
    return out


def grouped(machine, keys, values):
    """(each key once, how often, the sum of its values), in order of keys."""
    xp = machine.xp
    if len(keys) == 0:
        return keys, keys, values
    order = xp.argsort(keys)
    keys, values = keys[order], values[order]
    is_first = xp.concatenate([xp.ones(1, bool), keys[1:] != keys[:-1]])
    firsts = xp.nonzero(is_first)[0]
    ends = xp.concatenate([firsts[1:], xp.full(1, len(keys), firsts.dtype)])
    sums = xp.concatenate([xp.zeros(1, values.dtype), xp.cumsum(values)])
    return keys[firsts], ends - firsts, sums[ends] - sums[firsts]


def run_batch(machine, orders, customers):
    """A number that depends on all that was computed."""
    xp = machine.xp
    orders, regions = joined(machine, filtered(machine, orders), customers)
    worth = orders.price * orders.quantity
    shards = hashed(machine, orders.name) % 1000
    by_shard = grouped(machine, shards * 17 + regions, worth)
    by_region = grouped(machine, regions, worth)
    top = xp.sort(by_shard[2])[::-1][:TOP]
    parts = machine.to_host(xp.concatenate(
        [top, by_region[1], by_region[2], xp.sum(by_shard[0]).reshape(1)]))
    return int(parts.sum())


def run_batches(machine, batches, rows):
    """Batches of between half of `rows` and all of them; the sum of theirs."""
    choose_rows = random.Random(1)
    choose = numpy.random.default_rng(1)
    customers = make_customers(machine)
    return sum(run_batch(
        machine,
        make_orders(machine, choose, choose_rows.randint(rows // 2, rows)),
        customers) for _ in range(batches))
