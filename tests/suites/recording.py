# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that writes what becomes of each test to the file that
MOIETY_OUTCOMES names, one JSON object a line, as it happens: whatever crashes,
hangs or is killed, what came before is on record. Under pytest-xdist the
controller writes for all.

The last line says that the session came to its end, and how many blocks our
memory served in it: the sum of what plugins answer to pytest_served.
"""

import json
import os

import pytest

DETAIL_CHARACTERS = 3000


class Hooks:
    @pytest.hookspec
    def pytest_served(self):
        """How many blocks of our memory this process was given."""


def pytest_addhooks(pluginmanager):
    pluginmanager.add_hookspecs(Hooks)


def served_here(config):
    return sum(config.hook.pytest_served())


def detail_of(report):
    """Why it was skipped, or how it failed."""
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return report.longreprtext[-DETAIL_CHARACTERS:]


class Worker:
    @staticmethod
    def pytest_sessionfinish(session):
        session.config.workeroutput["served"] = served_here(session.config)


class Recorder:
    def __init__(self, path):
        self._out = open(path, "w", encoding="utf-8")
        self._served = 0

    def _write(self, **record):
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()

    def _write_report(self, report):
        self._write(test=report.nodeid, outcome=report.outcome,
                    detail=detail_of(report))

    def pytest_runtest_logreport(self, report):
        if report.outcome != "passed" or report.when == "call":
            self._write_report(report)

    def pytest_collectreport(self, report):
        """A module that is skipped or does not load has no tests."""
        if report.outcome != "passed":
            self._write_report(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self._served += getattr(node, "workeroutput", {}).get("served", 0)

    @pytest.hookimpl(trylast=True)  # after xdist has heard of all its workers
    def pytest_sessionfinish(self, session, exitstatus):
        self._write(end=int(exitstatus),
                    served=self._served + served_here(session.config))
        self._out.close()


def pytest_configure(config):
    config.pluginmanager.register(
        Worker() if hasattr(config, "workerinput")
        else Recorder(os.environ["MOIETY_OUTCOMES"]))
