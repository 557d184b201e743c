# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/performance.md: rows of changed code are grey and quoted by no
page; a figure or a page that is not as it would be made is found."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
from xml.etree import ElementTree

import digest
import figures
import performance
import svg

CODE = '#include "a.h"\n/* why */\nint f(void) { return 1; } // it\n'
PAGE = "# P\n\n<!-- figure: {} -->\n<!-- end -->\n"
SERVER = [{"kind": "torch-server", "subject": subject, "threads": threads,
           "requests_per_s": number, "commit": "abc"}
          for threads in (4, 8, 16)
          for subject, number in (("native", 500), ("moiety", 1000),
                                  ("mapped", 1250), ("lists", 1300))]
TRAINING = [{"kind": "torch-program", "program": program, "allocator": allocator,
             "live_peak_bytes": 100, "reserved_peak_bytes": number,
             "commit": "abc"}
            for program in ("finetune", "vision")
            for allocator, number in (("native", 200), ("expandable", 120),
                                      ("mapped", 103))]
TURNS = [{"kind": "torch-turns", "subject": subject, "program": "gpt",
          "turns": [{"forward": ms, "rest": 99}, {"forward": 2 * ms, "rest": 1}],
          "commit": "abc"} for subject, ms in (("native", 100), ("moiety", 105))]
REPLAYS = [{"kind": "replay", "subject": subject, "lag": "idle",
            "limit_bytes": 0, "trace": {"file": f"{trace}.mtrace"},
            "peak_live_bytes": 100, "peak_reserved_bytes": number,
            "latency_ns": {"alloc": {"median": 90, "p99": 700}}, "commit": "abc"}
           for trace in ("server", "gpt")
           for subject, number in (("moiety-mapped", 101), ("best-fit", 126),
                                   ("unknown", 500))]
CELLS = [{"workload": workload, "subject": "moiety_mapped", "threads": threads,
          "streams": streams, "ns_per_op_median": 15.2, "commit": "abc"}
         for workload in ("mixed", "pair") for threads in (1, 4, 16)
         for streams in (0, 1)]
LIMITS = [{"kind": "limit", "part": "limits", "lag": "idle", "subject": "moiety",
           "factor": factor, "mean_ns": 1000, "commit": "abc"}
          for factor in (0, 1.9)]
PYTHON = [{"what": "latency", "subject": subject, "threads": 1,
           "operation": "device memory", "size_bytes": 65536,
           "ns_median": number, "commit": "abc"}
          for subject, number in (("cupy", 800), ("cupy_moiety", 400))]
ROWS = {"torch-h200-server.jsonl": SERVER, "torch-h200-programs.jsonl": TRAINING,
        "torch-h200-turns.jsonl": TURNS, "python-h200-latency.jsonl": PYTHON,
        "performance-h200.jsonl": REPLAYS + CELLS + LIMITS}


def run(*words):
    """Exit status, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = performance.main(list(words))
    return code, output.getvalue() + errors.getvalue()


class Tree(unittest.TestCase):
    """A small checkout with rows of its code."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for part in {one for parts in digest.PARTS.values() for one in parts}:
            self.write(f"{part}/a.c", CODE)
        for name, rows in ROWS.items():
            self.write(f"bench/results/{name}",
                       "".join(json.dumps(row) + "\n" for row in rows))
        self.write("docs/performance.md", PAGE.format("server"))
        self.write("README.md", PAGE.format("summary"))
        digests = {part: digest.digest_of(self.root, part)
                   for part in digest.PARTS}
        self.runs = {name: {"commit": "abc", "date": "2026-11-29",
                            "device": "NVIDIA H200", "digests": digests}
                     for name in ROWS}
        self.write_runs()
        self.assertEqual(run(str(self.root))[0], 0)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_runs(self):
        self.write("bench/performance/runs.json", json.dumps(self.runs))

    def read(self, name):
        return (self.root / name).read_text()

    def check(self):
        return run("--check", str(self.root))

    def make(self):
        return run(str(self.root))


class Made(Tree):
    def test_a_made_tree_passes(self):
        code, output = self.check()
        self.assertEqual((code, output), (
            0, "performance: 9 figures, 0 of older code\n"))

    def test_a_page_has_its_numbers(self):
        page = self.read("docs/performance.md")
        self.assertIn("| 16 threads | 500 | 1 000 | 1 250 | 1 300 |",
                      page.replace("\N{NO-BREAK SPACE}", " "))
        self.assertIn("](performance/server.svg)", page)
        readme = self.read("README.md")
        self.assertIn("answers 2.5 times the requests", readme)
        self.assertIn("](docs/performance/server.svg)", readme)
        self.assertIn("reserve 1.03 times", readme)
        self.assertIn("takes 15 ns", readme)
        self.assertIn("takes 1.05 to 1.05 times as long", readme)

    def test_a_number_changed_by_hand_is_found(self):
        for name, old, new in (
                ("docs/performance.md", "1\N{NO-BREAK SPACE}250", "1750"),
                ("README.md", "2.5 times", "3.5 times"),
                ("docs/performance/server.svg", "requests/s", "answers/s")):
            with self.subTest(name):
                before = self.read(name)
                self.assertIn(old, before)
                self.write(name, before.replace(old, new))
                code, output = self.check()
                self.assertEqual(code, 1)
                self.assertIn(f"{name} is not as it is made", output)
                self.make()
                self.assertEqual(self.read(name), before)

    def test_a_missing_figure_is_found(self):
        (self.root / "docs/performance/calls.svg").unlink()
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("calls.svg is not as it is made", output)

    def test_bad_input_is_told(self):
        for change, words in (
                (lambda: self.write("README.md", PAGE.format("nothing")),
                 "there is no figure 'nothing'"),
                (lambda: self.write("bench/results/torch-h200-server.jsonl", ""),
                 "figure server: the rows show nothing of it"),
                (lambda: self.write("bench/results/torch-h200-server.jsonl",
                                    "{1"), "performance: "),
                (self.forget_a_run, "has no run of"),
                (lambda: (self.root / "pool/heap/a.c").unlink(),
                 "pool/heap has no code")):
            with self.subTest(words):
                self.setUp()
                change()
                code, output = self.check()
                self.assertEqual(code, 1)
                self.assertIn(words, output)

    def forget_a_run(self):
        del self.runs["torch-h200-server.jsonl"]
        self.write_runs()


class Stale(Tree):
    def test_a_comment_makes_nothing_old(self):
        self.write("pool/heap/a.c", CODE.replace("why", "because")
                   .replace("return 1", "return  1"))
        self.assertEqual(self.check()[0], 0)

    def test_code_makes_its_figures_grey(self):
        self.write("pool/heap/a.c", CODE.replace("return 1", "return 2"))
        self.assertEqual(self.check()[0], 1)
        self.make()
        drawn = self.read("docs/performance/server.svg")
        self.assertIn("#9a9a9a !important", drawn)
        self.assertIn("the code has changed since", drawn)
        self.assertIn("the code has changed since",
                      self.read("docs/performance.md"))

    def test_no_page_quotes_an_old_number(self):
        self.write("pool/heap/a.c", CODE.replace("return 1", "return 2"))
        self.make()
        readme = self.read("README.md")
        self.assertNotRegex(readme, r"\d (ns|times)")
        self.assertIn("The code has changed since the last measurements", readme)
        self.assertNotIn(".svg", readme)

    def test_code_of_one_part_leaves_the_others(self):
        self.write("emm/torch/a.c", CODE.replace("return 1", "return 2"))
        self.make()
        readme = self.read("README.md")
        self.assertIn("takes 15 ns", readme)
        self.assertNotIn("requests", readme)

    def commit(self):
        """All of the tree; its name."""
        git = ["git", "-C", str(self.root), "-c", "user.name=a",
               "-c", "user.email=a@b"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", "a"], check=True)
        return subprocess.run([*git, "rev-parse", "HEAD"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()

    def recorded(self, *commits):
        """What recording the server's rows, of these commits, says."""
        self.write("bench/results/torch-h200-server.jsonl", "".join(
            json.dumps(row | {"commit": commit}) + "\n"
            for commit in commits for row in SERVER))
        before = os.getcwd()
        os.chdir(self.root)
        try:
            return run("--record", "bench/results/torch-h200-server.jsonl",
                       "--date=2026-11-30", "--device=NVIDIA H200")
        finally:
            os.chdir(before)

    def test_rows_of_two_commits_are_one_run_if_their_code_is_the_same(self):
        first = self.commit()
        self.write("emm/native/a.c", CODE.replace("return 1", "return 2"))
        second = self.commit()
        self.assertEqual(self.recorded(first, second)[0], 0)
        self.assertIn(first, self.read("bench/performance/runs.json"))
        self.assertEqual(self.make()[0], 0)
        self.assertIn("requests", self.read("README.md"))
        self.write("pool/heap/a.c", CODE.replace("return 1", "return 2"))
        code, output = self.recorded(first, self.commit())
        self.assertEqual(code, 1)
        self.assertIn("rows of 2 commits with other code each", output)

    def test_a_string_is_no_comment(self):
        self.assertNotEqual(digest.bare('f("/* a */");'),
                            digest.bare('f("/* b */");'))
        self.assertEqual(digest.bare("int  a; // b\n"), digest.bare("int a;"))
        self.assertNotEqual(digest.bare("int a;"), digest.bare("inta;"))


class Drawn(Tree):
    def test_all_lies_within_a_narrow_screen(self):
        for path in sorted((self.root / "docs/performance").glob("*.svg")):
            with self.subTest(path.name):
                root = ElementTree.fromstring(path.read_text())
                self.assertLessEqual(int(root.get("width")), 390)
                for node in root.iter():
                    for key in ("x", "cx"):
                        if node.get(key):
                            self.assertTrue(0 <= float(node.get(key)) <= 390)

    def test_names_of_lines_fit(self):
        for name in figures.FIGURES:
            shown = figures.made(name, self.root / "bench/results")
            for line in shown.values:
                self.assertLessEqual(len(line), 21, line)

    def test_a_value_beyond_the_axis_lies_on_its_end(self):
        shown = figures.made("calls", self.root / "bench/results")
        ends = [svg.place(shown, value) for value in shown.axis]
        self.assertEqual([svg.place(shown, value) for value in (1, 10 ** 9)],
                         ends)

    def test_marks_differ_by_shape_within_a_figure(self):
        for name, (shown, _) in figures.FIGURES.items():
            shapes = [svg.LOOKS[one][2] for one in shown.subjects]
            self.assertEqual(len(set(shapes)), len(shapes), name)


class Recorded(unittest.TestCase):
    def test_rows_of_no_commit_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder, "rows.jsonl")
            rows.write_text('{"kind": "kit"}\n')
            with self.assertRaisesRegex(performance.Bad, "rows of 0 commits"):
                performance.commit_of(pathlib.Path(folder), rows)


class Measures(unittest.TestCase):
    def test_measure_says_how_it_is_called(self):
        done = subprocess.run(["bench/performance/measure.sh"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "usage: measure.sh FOLDER COMMIT")

    def test_programs_that_are_not_there_fail(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["bench/performance/measure.sh", folder, "abc",
                 f"{folder}/rows"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("measure: replay", done.stderr)


if __name__ == "__main__":
    unittest.main()
