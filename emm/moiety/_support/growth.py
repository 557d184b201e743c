# SPDX-License-Identifier: Apache-2.0
"""Growths of host arenas that coroutines wait for."""

import asyncio
import os


async def _end_of(growth):
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    # Its own: a loop has one reader of a descriptor, and others may wait, too.
    descriptor = os.dup(growth.fileno())
    try:
        loop.add_reader(descriptor, is_over.set)
        await is_over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    growth.wait(0)


def await_growth(growth):
    return _end_of(growth).__await__()
