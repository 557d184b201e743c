# SPDX-License-Identifier: Apache-2.0
"""Growths of host arenas that coroutines wait for."""

import asyncio


async def _end_of(growth):
    loop = asyncio.get_running_loop()
    is_over = loop.create_future()
    descriptor = growth.fileno()

    def finish():
        loop.remove_reader(descriptor)
        if not is_over.done():
            is_over.set_result(None)

    loop.add_reader(descriptor, finish)
    try:
        await is_over
    finally:
        loop.remove_reader(descriptor)
    growth.wait(0)


def await_growth(growth):
    return _end_of(growth).__await__()
