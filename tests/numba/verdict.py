# SPDX-License-Identifier: Apache-2.0
"""What the outcomes of numba's tests are compared with, and the comparison.

Every test is on exactly one committed list: passing.txt, or allowed.toml with
what it does instead (fail or skip), why, and pieces of text that the failure's
trace or the skip's reason must contain: it is excused for that reason only.
"""

import tomllib
from dataclasses import dataclass

# When one test reports several things (sub-tests), the first of these counts.
SEVERITY = ("crash", "fail", "unexpected-success", "skip", "expected-failure",
            "pass")


@dataclass(frozen=True)
class Expectation:
    outcome: str
    evidence: tuple = ()


@dataclass
class Outcome:
    outcome: str
    details: list


def read_lines(text):
    """The lines of a list that are neither empty nor comments."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def read_allowed(text):
    """(test, Expectation) pairs of allowed.toml; ValueError names a bad one."""
    pairs = []
    for group in tomllib.loads(text)["allowed"]:
        if group["outcome"] not in ("fail", "skip") or not group["why"]:
            raise ValueError(f"allowed.toml: bad group: {group}")
        expectation = Expectation(group["outcome"], tuple(group["evidence"]))
        pairs += [(test, expectation) for test in group["tests"]]
    return pairs


def expectations(passing_text, allowed_text):
    """Test -> Expectation; ValueError when a test is listed twice."""
    pairs = [(test, Expectation("pass")) for test in read_lines(passing_text)]
    pairs += read_allowed(allowed_text)
    expected = {}
    for test, expectation in pairs:
        if test in expected:
            raise ValueError(f"listed twice: {test}")
        expected[test] = expectation
    return expected


def outcomes_of(events):
    """Test -> Outcome, from the events of one module's run. A test that was
    started and never finished crashed its process."""
    outcomes = {}
    for event in events:
        if event["event"] == "end":
            continue
        name = "crash" if event["event"] == "start" else event["event"]
        seen = outcomes.get(event["test"])
        if seen is None or seen.outcome == "crash":
            seen = outcomes[event["test"]] = Outcome(name, [])
        if SEVERITY.index(name) < SEVERITY.index(seen.outcome):
            seen.outcome = name
        if name not in ("crash", "pass"):
            seen.details.append(event["detail"])
    return outcomes


def judge_one(test, expectation, outcome):
    """None, or what is wrong with this one."""
    if expectation is None:
        return f"{test}: {outcome.outcome}, but it is on no list"
    if outcome is None:
        return f"{test}: never ran (it is listed, numba does not have it)"
    if outcome.outcome != expectation.outcome:
        stale = outcome.outcome == "pass"
        return (
            f"{test}: {outcome.outcome}, expected {expectation.outcome}"
            + (" (stale: list it as passing)" if stale else "")
        )
    for words in expectation.evidence:
        if any(words not in detail for detail in outcome.details):
            return (
                f"{test}: {outcome.outcome}, but not for the listed reason: "
                f"nothing says {words!r}"
            )
    return None


def judge(expected, outcomes):
    """(test, complaint) pairs; none when everything is as listed."""
    complaints = []
    for test in sorted(expected.keys() | outcomes.keys()):
        complaint = judge_one(test, expected.get(test), outcomes.get(test))
        if complaint:
            complaints.append((test, complaint))
    return complaints
