# SPDX-License-Identifier: Apache-2.0
"""Counts the tests of one leg, from what Bazel itself wrote down.

    count_tests.py EVENTS TARGETS TAG...

EVENTS is Bazel's build event file, one JSON object a line. TARGETS is the
output of `bazel query --output=xml` for every test there is. A test that was
not run is skipped if it carries one of the TAGs that the leg leaves out, and
failed if it carries none: nothing may go missing in silence.

Prints "PASSED FAILED SKIPPED", and to standard error a line for each test that
failed, with the end of its log. A leg in which no test passed or failed is itself
a failure.
"""

import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

# Of a failed test's log: whoever sees only the end of CI's own output sees these.
LOG_END_CHARACTERS = 3000


def verdicts(path):
    """Label to overall status and log files, of every test that Bazel summarised."""
    found = {}
    with open(path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            summary = event.get("testSummary")
            if summary is not None:
                label = event["id"]["testSummary"]["label"]
                found[canonical(label)] = (
                    summary["overallStatus"],
                    [file["uri"] for file in summary.get("failed", [])])
    return found


def tests(path):
    """Label to tags, of every test that there is."""
    root = ElementTree.parse(path).getroot()
    return {
        canonical(rule.get("name")): {
            tag.get("value")
            for tag in rule.findall("./list[@name='tags']/string")
        }
        for rule in root.iter("rule")
    }


def canonical(label):
    """A current Bazel writes @@//a:b for //a:b."""
    return "//" + label.split("//", 1)[1]


def log_end(uri):
    path = urllib.request.url2pathname(urllib.parse.urlsplit(uri).path)
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return log.read()[-LOG_END_CHARACTERS:].rstrip()
    except OSError as error:
        return f"{path}: {error.strerror}"


def count(found, expected, left_out_tags):
    passed = failed = skipped = 0
    for label, tags in sorted(expected.items()):
        status, logs = found.get(label, (None, []))
        if status == "PASSED":
            passed += 1
        elif status is None and tags & left_out_tags:
            skipped += 1
        else:
            failed += 1
            print(f"ci: {label}: {status or 'was not run'}",
                  *map(log_end, logs[:1]), sep="\n", file=sys.stderr)
    if passed + failed == 0:
        failed = 1
        print("ci: this leg ran no test", file=sys.stderr)
    return passed, failed, skipped


def main(arguments):
    events, targets, *tags = arguments
    try:
        found = verdicts(events)
    except (OSError, ValueError) as error:
        print(f"ci: no verdicts from Bazel: {error}", file=sys.stderr)
        found = {}
    print(*count(found, tests(targets), set(tags)))


if __name__ == "__main__":
    main(sys.argv[1:])
