# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a comparison say, in sentences. Nothing here is HTML.

Times differ from run to run. Two subjects are alike where the runs of one reach
into those of the other, or where they differ by less than a hundredth; then
neither is called better.
"""

import collections

from moiety._report import words

CLOSE = 1.01
# Field, what it is, unit, and what more of it is.
MEASURES = (
    ("peak_reserved_bytes", "Memory reserved at the peak", words.as_bytes,
     "much"),
    ("mean_ns", "Average time of an operation", words.as_time, "long"),
    ("median_ns", "Median time of an operation", words.as_time, "long"),
    ("p99_ns", "Time within which 99 of 100 operations ended",
     words.as_time, "long"),
)
OURS = "moiety"
NOISE = "no difference beyond the spread of the runs"
Verdict = collections.namedtuple("Verdict", "title said")
Said = collections.namedtuple("Said", "link heading text")


def are_alike(one, other):
    """Of two summaries."""
    if one["min"] <= other["max"] and other["min"] <= one["max"]:
        return True
    least, most = sorted((one["median"], other["median"]))
    return bool(least) and most / least < CLOSE


def factor(small, large, word):
    """How much more the larger one is, as words."""
    if not small:
        return "more"
    ratio = large / small
    return f"{ratio:.3g}{words.JOIN}times as {word}" if ratio >= 1.1 else \
        f"{(ratio - 1) * 100:.2g}{words.JOIN}% more"


def beside(best, one, word):
    """How a summary is to the least one."""
    if one["median"] == best["median"]:
        return "the same"
    if are_alike(best, one):
        return NOISE if one["min"] <= best["max"] else "next to the same"
    return factor(best["median"], one["median"], word)


def finding(comparison, name, title, unit, word):
    """Who took how much, the least first."""
    ranked = comparison.ranked(name)
    if not ranked:
        return None
    best = ranked[0][1].values[name]
    said = [f"{ranked[0][1].name} {unit(best['median'])}"]
    said += [f"{one.name} {unit(value)} "
             f"({beside(best, one.values[name], word)})"
             for value, one in ranked[1:]]
    return f"{title}: {'; '.join(said)}."


def failures(comparison):
    return words.joined(
        f"{one.name} ({words.counted(one.values['ooms']['max'], 'time')})"
        for one in comparison.ran if one.has_failed)


def findings(comparison):
    """Sentences: who failed, who needed the least memory, who was fastest."""
    said = []
    if failures(comparison):
        said.append("Memory ran out, so that it served less and is not "
                    f"ranked: {failures(comparison)}.")
    said += [finding(comparison, *one) for one in MEASURES]
    return [one for one in said if one]


def others_best(comparison, name):
    """The least summary of those that are not Moiety's, and whose it is."""
    return next(((one.values[name], one.name)
                 for _, one in comparison.ranked(name)
                 if one.name.split("-")[0] != OURS), None)


def standing(comparison, name, title, unit, word):
    """(key, words) of where Moiety stands to the best of the others, or
    None."""
    ours = comparison.subjects.get(OURS)
    best = others_best(comparison, name)
    if ours is None or ours.refused is not None or ours.has_failed or \
            ours.values[name] is None or best is None:
        return None
    found, rival = best
    ends = sorted([(ours.values[name], OURS), (found, rival)],
                  key=lambda pair: pair[0]["median"])
    (less, first), (more, second) = ends
    said = (f"{title}: {first} {unit(less['median'])}; "
            f"{second} {unit(more['median'])}")
    if are_alike(less, more):
        return "alike", said
    said += f", {factor(less['median'], more['median'], word)}"
    if unit is words.as_time and 1 in (less["count"], more["count"]):
        said += " (of one run, so that it may be chance)"
    return "ahead" if first == OURS else "behind", said


def served(comparison):
    """Whether Moiety served all where others did not, or the other way."""
    ours = comparison.subjects.get(OURS)
    if ours is None or ours.refused is not None or not failures(comparison):
        return
    yield ("behind" if ours.has_failed else "ahead",
           f"Allocations failed: {failures(comparison)}"
           + ("" if ours.has_failed else "; moiety served all"))


VERDICTS = (("ahead", "Moiety is better"), ("alike", "No difference that "
            "the runs could show"), ("behind", "Moiety is worse"))


def verdicts(comparisons):
    """Moiety beside the best of the others, by what came of it."""
    found = {key: [] for key, _ in VERDICTS}
    for number, one in enumerate(comparisons):
        places = [*served(one), *filter(None, (standing(one, *measure)
                                               for measure in MEASURES))]
        for key, said in places:
            found[key].append(Said(f"c{number}", one.heading(), said))
    return [Verdict(title, found[key]) for key, title in VERDICTS
            if found[key]]
