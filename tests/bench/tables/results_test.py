# SPDX-License-Identifier: Apache-2.0
"""The tables of the pages of results are those that their raw rows make; what is
not so, or cannot be made, is found."""

import contextlib
import io
import os
import re
import tempfile
import unittest

import results

IPC_PAGE = "docs/dev/results/ipc.md"
HOST_PAGE = "docs/dev/results/host.md"
# Of one call, which is enough to see that it is made.
ROWS = ('{"call": "export", "median_ns": 10, "least_ns": 9, "most_ns": 11, '
        '"batches": 3, "standin": false}\n')
ABOUT = "--device=D --driver=X --date=2026 --commit=abc --repeats=1"
MADE = [
    "*D; driver X; 2026; commit abc; 1 process each*", "",
    "| call | target | median (least–most), ns | batches |",
    "|---|--:|--:|--:|", "| export | ≤ 200 | 10 (9–11) | 3 |",
]


def run(*arguments):
    """Exit status, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = results.main(list(arguments))
    return code, output.getvalue(), errors.getvalue()


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Scratch(unittest.TestCase):
    """Has a folder, in which rows are."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.rows = os.path.join(folder.name, "rows")
        self.page = os.path.join(folder.name, "page.md")
        self.write(self.rows, ROWS)

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def block(self, command, *lines):
        return "\n".join(["before", f"<!-- made: {command} -->", *lines,
                          "<!-- end -->", "after", ""])


class RealPages(Scratch):
    def test_are_as_they_are_made(self):
        code, output, errors = run("--check")
        self.assertEqual((code, errors), (0, ""), output)
        counts = [int(count) for count in
                  re.findall(r"\.md: ([0-9]+) tables, ", output)]
        self.assertEqual(len(counts), 6)
        self.assertGreaterEqual(sum(counts), 11)

    def test_a_figure_changed_by_hand_is_caught(self):
        text = text_of(IPC_PAGE)
        self.assertEqual(text.count("| export | ≤ 200 | 112 ("), 1)
        self.write(self.page, text.replace("≤ 200 | 112 (", "≤ 200 | 111 ("))
        code, output, errors = run("--check", self.page)
        self.assertEqual(code, 1)
        self.assertIn("\n-| export | ≤ 200 | 111 (", output)
        self.assertIn("\n+| export | ≤ 200 | 112 (", output)
        self.assertIn("is not as it is made", errors)

    def test_a_line_about_the_host_changed_by_hand_is_caught(self):
        text = text_of(HOST_PAGE)
        self.assertIn("; commit ", text)
        self.write(self.page, text.replace("; commit ", "; commit f"))
        self.assertEqual(run("--check", self.page)[0], 1)

    def test_one_wrong_page_of_several_is_caught(self):
        self.write(self.page, text_of(IPC_PAGE).replace("112 (", "111 ("))
        self.assertEqual(run("--check", self.page, IPC_PAGE)[0], 1)
        self.assertEqual(run("--check", HOST_PAGE, IPC_PAGE)[0], 0)

    def test_each_table_says_where_when_and_what_was_measured(self):
        for page in results.pages_of_docs():
            lines = text_of(page).splitlines()
            for number, line in enumerate(lines):
                if line.startswith(results.BEGIN):
                    self.assertRegex(
                        lines[number + 1],
                        r"^\*.+; driver .+; 2026-[-0-9 and]+; commit "
                        r"[0-9a-f, ]+; [-–0-9]+ process(es)? each\*$")


class Blocks(Scratch):
    def test_are_made_in_place(self):
        self.write(self.page, self.block(f"ipc {ABOUT} {self.rows}", "old"))
        code, output, _ = run(self.page)
        self.assertEqual(code, 0)
        self.assertIn("1 tables, written", output)
        self.assertEqual(text_of(self.page), self.block(
            f"ipc {ABOUT} {self.rows}", *MADE))

    def test_that_are_right_stay_as_they_are(self):
        self.write(self.page, self.block(f"ipc {ABOUT} {self.rows}", *MADE))
        self.assertEqual(run("--check", self.page)[0], 0)
        before = os.stat(self.page).st_mtime_ns
        self.assertEqual(run(self.page)[0], 0)
        self.assertEqual(os.stat(self.page).st_mtime_ns, before)

    def test_nothing_is_written_by_a_check(self):
        text = self.block(f"ipc {ABOUT} {self.rows}", "old")
        self.write(self.page, text)
        self.assertEqual(run("--check", self.page)[0], 1)
        self.assertEqual(text_of(self.page), text)


class Refused(Scratch):
    def refuses(self, wanted, text):
        self.write(self.page, text)
        code, _, errors = run(self.page)
        self.assertEqual(code, 1)
        self.assertIn(wanted, errors)
        self.assertEqual(text_of(self.page), text)

    def test_a_raw_file_that_is_missing_is_named(self):
        self.refuses(f"line 2: {self.rows}.gone: No such file",
                     self.block(f"ipc {ABOUT} {self.rows}.gone"))

    def test_a_table_that_nobody_makes(self):
        self.refuses("there is no table 'colours'",
                     self.block(f"colours {self.rows}"))
        self.refuses("there is no table ''", self.block(""))

    def test_commands_that_are_wrong(self):
        for command, why in (
                (f"ipc {ABOUT}", "no file is named"),
                (f"ipc {ABOUT} --part=x {self.rows}", "is not accepted"),
                (f"ipc {ABOUT} --commit=x {self.rows}", "is not accepted"),
                (f"ipc --device='D {self.rows}", "No closing quotation"),
                (f"host --part=x {self.rows}", "--part=x is none of"),
                (f"pool --value=x {self.rows}", "--value=x is none of")):
            self.refuses(why, self.block(command))

    def test_what_nobody_says(self):
        self.refuses("no row says the repeats", self.block(
            f"ipc --device=D --driver=X --date=2026 --commit=abc {self.rows}"))

    def test_what_the_rows_say_otherwise(self):
        self.refuses(
            "--commit=abc, but the rows say ",
            self.block("python --commit=abc --date=2026 "
                       "bench/results/python-h200-latency.jsonl"))

    def test_rows_that_are_not_as_they_should_be(self):
        self.write(self.rows, "nonsense\n")
        self.refuses("rows:1: no JSON",
                     self.block(f"ipc {ABOUT} {self.rows}"))
        self.write(self.rows, ROWS.replace("false", "true"))
        self.refuses("the rows are of the stand-in",
                     self.block(f"ipc {ABOUT} {self.rows}"))

    def test_lines_that_are_no_blocks(self):
        begin = f"<!-- made: ipc {ABOUT} {self.rows} -->\n"
        for text, why in (
                (begin + "old\n", "line 1: the block has no <!-- end -->"),
                (begin + begin + "<!-- end -->\n", "line 1: the block has no"),
                ("x\n<!-- end -->\n", "line 2: it ends a block"),
                ("<!-- made: ipc\n", "does not end with")):
            self.refuses(why, text)

    def test_a_page_that_is_not_there(self):
        code, _, errors = run("/no/page")
        self.assertEqual(code, 1)
        self.assertIn("/no/page: No such file", errors)
        self.assertEqual(run("--colour")[0], 2)


if __name__ == "__main__":
    unittest.main()
