# SPDX-License-Identifier: Apache-2.0
"""Changes what a snapshot's pickle has, where a change of its bytes would
mostly make no pickle of it."""

import io
import pickle
import random

from moiety import trace
from moiety._trace.plain_pickle import load

_NUMBERS = (-1, 0, 1, 512, (1 << 48) + 1, (1 << 63) - 1, (1 << 64) - 1, 1 << 64)
_TEXTS = ("alloc", "free_requested", "free_completed", "segment_alloc",
          "segment_free", "oom", "snapshot", "inactive", "active_allocated",
          "address", "requested_size", "blocks", "user_metadata", "\0", "")


def _plain(root):
    """The same of lists and dictionaries that pickle knows; what is in two
    places stays one thing."""
    made, left = {}, [root]
    while left:
        one = left.pop()
        if isinstance(one, (list, dict)) and id(one) not in made:
            made[id(one)] = {} if isinstance(one, dict) else []
            left += one.values() if isinstance(one, dict) else one

    def counterpart(one):
        return made.get(id(one), one)

    left = [root]
    while left:
        one = left.pop()
        copy = counterpart(one)
        if copy is one or copy:
            continue
        if isinstance(one, dict):
            copy |= {key: counterpart(value) for key, value in one.items()}
            left += one.values()
        else:
            copy += map(counterpart, one)
            left += one
    return counterpart(root)


def _places(root):
    """(container, key) of everything that is in it, each container once."""
    found, seen, left = [], set(), [root]
    while left:
        one = left.pop()
        if id(one) in seen or type(one) not in (list, dict):
            continue
        seen.add(id(one))
        keys = one if type(one) is dict else range(len(one))
        found += [(one, key) for key in keys]
        left += [one[key] for key in keys]
    return found


def _change(root, chance):
    places = _places(root)
    if not places:
        return
    container, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            container[key] = chance.choice(_NUMBERS)
        case 1:
            container[key] = chance.choice(_TEXTS)
        case 2:
            del container[key]
        case 3:  # the very same thing in two places
            other, place = chance.choice(places)
            container[key] = other[place]
        case 4:
            if type(container) is list:
                container += [container[key]] * chance.choice((1, 50, 500))
            else:
                container[chance.choice(_TEXTS)] = container[key]
        case 5:
            container[key] = chance.choice((None, True, 0.5, [], {}, b"", ()))


def mutate(data, bytes_max, seed):
    """A pickle of at most so many bytes, or None where there is none to change
    or it comes out too large."""
    chance = random.Random(seed)
    try:
        root = _plain(load(io.BufferedReader(io.BytesIO(data))))
    except trace.TraceError:
        return None
    for _ in range(chance.randint(1, 4)):
        _change(root, chance)
    try:
        made = pickle.dumps(root, chance.randint(0, 5))
    except RecursionError:
        return None
    return made if len(made) <= bytes_max else None
