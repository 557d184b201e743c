# SPDX-License-Identifier: Apache-2.0
"""What became of the tests of a suite, in one run with its own memory manager
or handler ("own") and in one with ours ("ours"), and what differs.

What decides is whether anything passes with its own and not with ours. A test
that does so is run again with both: if it fails each time with ours, and passes
at least once with its own, it is an extra failure; else it is flaky. Nothing
may be skipped because of us but what the suite itself skips for all managers
that are not its own.
"""

import json
from dataclasses import dataclass, field

# Of several reports of one test, the last of these counts.
SEVERITY = ("passed", "skipped", "failed")


@dataclass
class Run:
    """One run: test -> outcome, and test -> what it said."""

    outcomes: dict = field(default_factory=dict)
    details: dict = field(default_factory=dict)
    end: int | None = None
    served: int = 0

    def having(self, outcome):
        return {test for test, how in self.outcomes.items() if how == outcome}


def read(lines):
    """The Run that recording.py wrote. Without a last line it was killed."""
    run = Run()
    for line in lines:
        record = json.loads(line)
        if "end" in record:
            run.end, run.served = record["end"], record["served"]
            continue
        test, outcome = record["test"], record["outcome"]
        before = run.outcomes.get(test, "passed")
        run.outcomes[test] = max(before, outcome, key=SEVERITY.index)
        if record["detail"]:
            run.details[test] = record["detail"]
    return run


def only_ours(own, ours):
    """(failed, skipped, not run): tests that pass with its own and fail with
    ours, that are skipped with ours alone, that are not there with ours."""
    return (own.having("passed") & ours.having("failed"),
            ours.having("skipped") - own.having("skipped"),
            own.having("passed") - ours.outcomes.keys())


@dataclass
class Again:
    """How often a test failed, of how many runs, the first one among them."""

    own: int
    ours: int
    runs: int

    @property
    def is_extra(self):
        return self.ours == self.runs and self.own < self.runs


def count_failures(tests, first, again):
    """test -> Again; `first` is (own, ours), `again` a list of such pairs. What
    did not run to its end did not pass."""
    pairs = [first, *again]
    return {
        test: Again(*(sum(pair[i].outcomes.get(test) != "passed"
                          for pair in pairs) for i in (0, 1)), len(pairs))
        for test in sorted(tests)
    }


@dataclass
class Verdict:
    own: Run
    ours: Run
    extra: dict  # test -> Again
    flaky: dict  # test -> Again
    allowed_skips: list
    other_skips: list
    not_run: list

    def complaints(self):
        """What keeps the suite from being passed; none when nothing does."""
        found = [f"{name}: the run did not come to its end"
                 for name, run in (("own", self.own), ("ours", self.ours))
                 if run.end not in (0, 1)]
        if not self.own.having("passed"):
            found.append("nothing passed")
        if self.own.served or not self.ours.served:
            found.append(f"our memory served {self.own.served} blocks of the "
                         f"suite's own run, {self.ours.served} of ours")
        found += [f"{test}: failed in {count.ours} of {count.runs} runs"
                  for test, count in self.extra.items()]
        found += [f"{test}: skipped" for test in self.other_skips]
        return found + [f"{test}: did not run" for test in self.not_run]


def judge(own, ours, again, allowed_skips):
    """The Verdict. `again`: pairs of Runs of what only_ours() found failing."""
    failed, skipped, not_run = only_ours(own, ours)
    counts = count_failures(failed, (own, ours), again)
    return Verdict(
        own, ours,
        {test: one for test, one in counts.items() if one.is_extra},
        {test: one for test, one in counts.items() if not one.is_extra},
        sorted(skipped & allowed_skips), sorted(skipped - allowed_skips),
        sorted(not_run))


def lines_of(title, tests):
    if tests:
        yield from ["", f"{title}:", ""]
        yield from (f"- {test}" for test in tests)


def reason_of(run, test):
    """The line that says most of a failure: the first that names an error."""
    lines = run.details.get(test, "").strip().splitlines() or ["nothing said"]
    errors = [line for line in lines if line.startswith("E  ")]
    return (errors or lines[-1:])[0].removeprefix("E").strip()[:160]


def with_counts(counts):
    return [f"{test}: with its own {one.own}, with ours {one.ours} of "
            f"{one.runs} runs" for test, one in counts.items()]


def markdown(name, verdict):
    """Both runs, and every test that differs or fails."""
    yield f"| {name} | passed | failed | skipped | blocks served |"
    yield "|---|--:|--:|--:|--:|"
    for title, run in (("its own", verdict.own), ("ours", verdict.ours)):
        counts = " | ".join(str(len(run.having(outcome))) for outcome in
                            ("passed", "failed", "skipped"))
        yield f"| {title} | {counts} | {run.served} |"
    own, ours = verdict.own, verdict.ours
    both = sorted(own.having("failed") & ours.having("failed"))
    yield from lines_of("Failed with ours alone, each time",
                        with_counts(verdict.extra))
    yield from lines_of("Flaky: failures", with_counts(verdict.flaky))
    yield from lines_of("Skipped with ours alone, as with every manager but "
                        "its own", verdict.allowed_skips)
    yield from lines_of("Skipped with ours alone, against the rule",
                        verdict.other_skips)
    yield from lines_of("Did not run with ours", verdict.not_run)
    yield from lines_of("Passed with ours alone", sorted(
        ours.having("passed") & own.having("failed")))
    yield from lines_of("Failed with both", [
        f"{test}: {reason_of(own, test)}" for test in both])
    yield from lines_of("Not good enough", verdict.complaints())
