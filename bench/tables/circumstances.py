# SPDX-License-Identifier: Apache-2.0
"""The line above a table that says where, with what and when its numbers were
measured. What the rows say is taken from them. What they lack is given by who
makes the table, and is refused where the rows say otherwise."""

from table_text import BadInput, in_order, span

# What may be given; `facts` is a file of lines "fact: NAME = VALUE".
OPTIONS = ("device", "cpu", "driver", "date", "commit", "repeats", "facts")
FACT = "fact: "


def facts_of(path):
    """What the program of the host's facts found there, by name."""
    try:
        with open(path, encoding="utf-8") as file:
            pairs = [line[len(FACT):].split(" = ", 1) for line in file
                     if line.startswith(FACT)]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def cpu_text(name, processors):
    return f"{processors} × {name}"


def driver_text(name, is_standin, is_simulated):
    if not is_standin:
        return name
    cost = "simulated" if is_simulated else "this machine's"
    return f"{name} (stand-in, no GPU; its times are {cost})"


def known(values):
    return in_order(str(value) for value in values
                    if value not in (None, "", "none", "unknown"))


def told(key, found, given):
    """What is known of `key`, at least one value."""
    values = known(found.get(key, ()))
    if key not in given:
        if not values:
            raise BadInput(f"no row says the {key}: give --{key}=")
        return values
    if values and values != [given[key]]:
        raise BadInput(f"--{key}={given[key]}, but the rows say "
                       f"{', '.join(values)}")
    return [given[key]]


def one(key, found, given):
    values = told(key, found, given)
    if len(values) > 1:
        raise BadInput(f"rows that differ in {key} are not of one table: "
                       f"{', '.join(values)}")
    return values[0]


def with_facts(given):
    """A host's facts say its device, and more of its driver than rows do."""
    if "facts" not in given:
        return given, ""
    facts = facts_of(given["facts"])
    missing = [key for key in ("device", "kernel_driver") if key not in facts]
    if missing:
        raise BadInput(f"{given['facts']}: no fact {', '.join(missing)}")
    return ({"device": facts["device"], **given},
            f" ({facts['kernel_driver']})")


def short(commit):
    """A whole hash by its beginning."""
    return commit[:7] if len(commit) == 40 else commit


def line(found, given):
    """`found`: of each key what the rows say; `given`: what was given."""
    given, more = with_facts(given)
    found = {**found, "commit": [short(commit) for commit
                                 in known(found.get("commit", ()))]}
    place = [one("device", found, given)]
    if "cpu" in given or known(found.get("cpu", ())):
        place.append(one("cpu", found, given))
    repeats = span(map(int, told("repeats", found, given)))
    return (f"*{'; '.join(place)}; "
            f"driver {one('driver', found, given)}{more}; "
            f"{span(told('date', found, given))}; "
            f"commit {one('commit', found, given)}; "
            f"{repeats} {'process' if repeats == '1' else 'processes'} each*")
