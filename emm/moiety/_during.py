# SPDX-License-Identifier: Apache-2.0
"""Something that is held while a function runs, as a decorator.

A function that is suspended has returned already: a coroutine function's call,
or a generator's. So each kind is wrapped by one of its own kind. A coroutine
keeps what is held across `await`, as context variables are its task's. A
generator does not keep it across `yield`, as there its caller runs, in the same
context.
"""

import functools
import inspect


def during(function, hold):
    """The function, with `hold()`, a context manager, entered while it runs."""
    for is_kind, wrap in ((inspect.isasyncgenfunction, _async_generator),
                          (inspect.iscoroutinefunction, _coroutine),
                          (inspect.isgeneratorfunction, _generator)):
        if is_kind(function):
            return wrap(function, hold)
    if not callable(function) or inspect.isclass(function):
        raise TypeError(f"{function!r} is not a function to decorate")
    return _function(function, hold)


def _function(function, hold):
    @functools.wraps(function)
    def held(*args, **kwargs):
        with hold():
            return function(*args, **kwargs)
    return held


def _coroutine(function, hold):
    @functools.wraps(function)
    async def held(*args, **kwargs):
        with hold():
            return await function(*args, **kwargs)
    return held


def _generator(function, hold):
    @functools.wraps(function)
    def held(*args, **kwargs):
        made = function(*args, **kwargs)
        step, what = made.send, None
        while True:
            try:
                with hold():
                    item = step(what)
            except StopIteration as end:
                return end.value
            step, what = made.send, None
            try:
                what = yield item
            except GeneratorExit:
                with hold():
                    made.close()
                raise
            except BaseException as error:  # the generator's to catch
                step, what = made.throw, error
    return held


def _async_generator(function, hold):
    @functools.wraps(function)
    async def held(*args, **kwargs):
        made = function(*args, **kwargs)
        step, what = made.asend, None
        while True:
            try:
                with hold():
                    item = await step(what)
            except StopAsyncIteration:
                return
            step, what = made.asend, None
            try:
                what = yield item
            except GeneratorExit:
                with hold():
                    await made.aclose()
                raise
            except BaseException as error:  # the generator's to catch
                step, what = made.athrow, error
    return held
