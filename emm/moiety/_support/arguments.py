# SPDX-License-Identifier: Apache-2.0
"""Names of arguments that are not accepted, as the C module refuses them: Python
before 3.15 does not name the nearest one."""

import functools
import inspect


def named(function):
    """Refuses an unknown argument beside the nearest that the function has."""
    accepted = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*arguments, **options):
        for name in options:
            if name not in accepted:
                raise TypeError(_refusal(function.__name__, name, accepted))
        return function(*arguments, **options)

    return call


def _refusal(function, name, accepted):
    import difflib
    found = difflib.get_close_matches(name, accepted, 1)
    nearest = f", did you mean {found[0]!r}? A" if found else "; a"
    return (f"{function}() has no argument {name!r}{nearest}ccepted are "
            f"{', '.join(accepted)}")
