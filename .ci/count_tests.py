# SPDX-License-Identifier: Apache-2.0
"""Counts the tests of one leg, from what Bazel itself wrote down.

    count_tests.py EVENTS TARGETS TAG...

EVENTS is Bazel's build event file, one JSON object a line. TARGETS is the
output of `bazel query --output=xml` for every test there is. A test that was
not run is skipped if it carries one of the TAGs that the leg leaves out, and
failed if it carries none: nothing may go missing in silence.

Prints "PASSED FAILED SKIPPED", and a line to standard error for each test that
failed. A leg in which no test passed or failed is itself a failure.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree


def verdicts(path):
    """Label to overall status, of every test that Bazel summarised."""
    found = {}
    with open(path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            summary = event.get("testSummary")
            if summary is not None:
                label = event["id"]["testSummary"]["label"]
                found[canonical(label)] = summary["overallStatus"]
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


def count(found, expected, left_out_tags):
    passed = failed = skipped = 0
    for label, tags in sorted(expected.items()):
        status = found.get(label)
        if status == "PASSED":
            passed += 1
        elif status is None and tags & left_out_tags:
            skipped += 1
        else:
            failed += 1
            print(f"ci: {label}: {status or 'was not run'}", file=sys.stderr)
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
