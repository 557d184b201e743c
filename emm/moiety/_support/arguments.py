# SPDX-License-Identifier: Apache-2.0
"""Words that are not accepted, refused beside the nearest one that is. Python
before 3.15 does not name it for arguments."""

import functools
import inspect


def nearest(word, accepted, least_likeness=0.6):
    """Returns the accepted word that is most like this one, or None."""
    import difflib
    found = difflib.get_close_matches(word, accepted, 1, least_likeness)
    return found[0] if found else None


def refusal(named):
    """Returns the words for (function, name, accepted): an argument that the
    function does not have. The C module calls it, too."""
    function, name, accepted = named
    found = nearest(name, accepted)
    question = f", did you mean {found!r}? A" if found else "; a"
    return (f"{function}() has no argument {name!r}{question}ccepted are "
            f"{', '.join(accepted)}")


def named(function):
    """Refuses an unknown argument beside the nearest that the function has."""
    accepted = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*arguments, **options):
        for name in options:
            if name not in accepted:
                raise TypeError(refusal((function.__name__, name, accepted)))
        return function(*arguments, **options)

    return call
