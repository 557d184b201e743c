# SPDX-License-Identifier: Apache-2.0
"""Makes the figures of docs/performance.md, and what other pages quote of them.

    performance.py [--check] [ROOT]
    performance.py --record ROWS... [--date=DATE] [--device=NAME]

Writes docs/performance/NAME.svg, and what stands between `<!-- figure: NAME -->`
and `<!-- end -->` in the pages. runs.json has of each file of rows the commit, and
a digest of the code as it was there (digest.py). If the code has changed since, the
figure is grey, and no page quotes a number of it. --check writes nothing, and fails
if a file is not as it would be made. --record notes of which commit rows are; the
rows say it.
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import digest
import figures
import svg

ROWS = "bench/results"
RUNS = "bench/performance/runs.json"
PAGES = ("README.md", "docs/performance.md")
FIGURES = "docs/performance"
PLOT = "server"  # in README.md
BLOCK = re.compile(r"<!-- figure: (\S+) -->\n.*?<!-- end -->\n", re.DOTALL)


class Bad(Exception):
    """One line that says what is wrong."""


class Maker:
    """What can be made of the tree below `root`."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.runs = json.loads((self.root / RUNS).read_text())
        self.digests = {part: digest.digest_of(self.root, part)
                        for part in digest.PARTS}

    def run_of(self, shown):
        try:
            runs = [self.runs[file] for file in shown.files]
        except KeyError as error:
            raise Bad(f"{RUNS} has no run of {error}") from error
        return runs[0]

    @functools.lru_cache(maxsize=None)
    def figure(self, name):
        if name not in figures.FIGURES:
            raise Bad(f"there is no figure {name!r}")
        try:
            return figures.made(name, self.root / ROWS)
        except figures.NoRows as error:
            raise Bad(f"figure {name}: the rows show nothing of it") from error

    def is_stale(self, shown):
        digests = self.run_of(shown)["digests"]
        return digests[shown.part] != self.digests[shown.part]

    def note(self, shown):
        run = self.run_of(shown)
        age = "; the code has changed since" if self.is_stale(shown) else ""
        return f"{run['device']}, {run['date']}, {run['commit']}{age}"

    def svg(self, name):
        shown = self.figure(name)
        return svg.drawn(shown, self.note(shown), self.is_stale(shown))

    def block(self, name):
        """The lines of a page."""
        if name == "summary":
            return self.summary()
        shown = self.figure(name)
        rows = ", ".join(f"[{file}](../{ROWS}/{file})" for file in shown.files)
        names = [figures.NAMES[subject] for subject in shown.subjects]
        return [
            f"![{shown.title}: the table below has the numbers]"
            f"(performance/{name}.svg)", "",
            f"<details><summary>{shown.title}, {shown.unit}: median "
            "(least–most)</summary>", "",
            f"{self.note(shown)}; rows: {rows}", "",
            f"| | {' | '.join(names)} |", "|---|" + "--:|" * len(names),
            *(f"| {line} | "
              + " | ".join(cell(values.get(subject))
                           for subject in shown.subjects) + " |"
              for line, values in shown.values.items()),
            "", "</details>"]

    def summary(self):
        """Sentences with numbers, of figures that are not stale, and one of these."""
        found = []
        for name, sentence in QUOTES.items():
            shown = self.figure(name)
            if not self.is_stale(shown):
                found.append(f"- {sentence(shown)}")
        shown = self.figure(PLOT)
        if not self.is_stale(shown):
            found += ["", f"![{shown.title}]({FIGURES}/{PLOT}.svg)"]
        return found or ["- The code has changed since the last measurements: the "
                         "page of performance shows them in grey."]


def number(value):
    if value >= 1000:
        # Not to be broken in a narrow column.
        return f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(values):
    if values is None:
        return "–"
    middle, least, most = map(number, values)
    return middle if least == most else f"{middle} ({least}–{most})"


def ratio(shown, line, subject, other):
    values = shown.values[line]
    return values[subject][0] / values[other][0]


def quote_server(shown):
    best = ratio(shown, "16 threads", "mapped", "native")
    return (f"**More requests.** A libtorch server with 16 threads answers {best:.1f} "
            "times the requests\n  of PyTorch's own allocator.")


NUMBERS = "No One Two Three Four Five Six Seven Eight".split()


def quote_programs(shown):
    """Of the programs that each of the allocators ran."""
    lines = [line for line in shown.values.values()
             if all(subject in line for subject in shown.subjects)]
    mean = {subject: sum(line[subject][0] for line in lines) / len(lines)
            for subject in shown.subjects}
    return (f"**Less memory.** {NUMBERS[len(lines)]} PyTorch programs reserve "
            f"{mean['mapped']:.2f} "
            f"times their live bytes:\n  {mean['expandable']:.2f} with expandable "
            f"segments, {mean['native']:.2f} with PyTorch's default.")


def quote_calls(shown):
    line = shown.values["pair 64 KiB · 16"]
    return (f"**Fast hits.** A pair of calls takes {line['mapped'][0]:.0f} ns with "
            "each of 16 threads.")


def quote_steps(shown):
    ratios = [values["mapped"][0] for values in shown.values.values()]
    return (f"**The price.** A step of a PyTorch program takes {min(ratios):.2f} to "
            f"{max(ratios):.2f} times as long.")


QUOTES = {"server": quote_server, "programs": quote_programs,
          "calls": quote_calls, "steps": quote_steps}


def page_text(maker, text):
    def made(found):
        return "\n".join([f"<!-- figure: {found.group(1)} -->",
                          *maker.block(found.group(1)), "<!-- end -->", ""])
    return BLOCK.sub(made, text)


def files_of(maker):
    """{path: text} of all that is made."""
    found = {f"{FIGURES}/{name}.svg": maker.svg(name)
             for name in figures.FIGURES}
    for page in PAGES:
        found[page] = page_text(maker, (maker.root / page).read_text())
    return found


def make(root, is_check):
    maker = Maker(root)
    stale = [name for name in figures.FIGURES
             if maker.is_stale(maker.figure(name))]
    status = 0
    for path, text in files_of(maker).items():
        target = maker.root / path
        if target.exists() and target.read_text() == text:
            continue
        if is_check:
            print(f"performance: {path} is not as it is made: python3 "
                  "bench/performance/performance.py", file=sys.stderr)
            status = 1
        else:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
    print(f"performance: {len(figures.FIGURES)} figures, {len(stale)} of older "
          f"code{': ' if stale else ''}{', '.join(stale)}")
    return status


def digests_at(root, commit):
    """Of the code as it was."""
    with tempfile.TemporaryDirectory() as folder:
        tree = subprocess.run(["git", "-C", root, "archive", commit, "pool", "emm"],
                              check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=tree, check=True)
        return {part: digest.digest_of(folder, part) for part in digest.PARTS}


def parts_of(name):
    """What the figures that are made of the file measure."""
    return {shown.part for shown, _ in figures.FIGURES.values()
            if name in shown.files}


def commit_of(root, path):
    """Of all rows, and the digests there. The rows of one run may be of two commits
    between which nothing has changed that they measure: then it is the first."""
    commits = list(dict.fromkeys(row["commit"] for row in figures.rows_of(
        path.parent, path.name) if row.get("commit")))
    digests = [digests_at(root, commit) for commit in commits]
    if len({tuple(one[part] for part in sorted(parts_of(path.name)))
            for one in digests}) != 1:
        raise Bad(f"{path}: rows of {len(commits)} commits with other code each, "
                  "one is wanted")
    return commits[0], digests[0]


def record(root, paths, date, device):
    runs = json.loads((root / RUNS).read_text())
    for path in map(pathlib.Path, paths):
        commit, digests = commit_of(root, path)
        runs[path.name] = {"commit": commit, "date": date, "device": device,
                           "digests": digests}
    (root / RUNS).write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n")
    return 0


def main(words):
    options = dict(word[2:].partition("=")[::2] for word in words
                   if word.startswith("--"))
    paths = [word for word in words if not word.startswith("--")]
    root = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    try:
        if "record" in options:
            return record(root, paths, options["date"], options["device"])
        return make(paths[0] if paths else root, "check" in options)
    except (Bad, OSError, KeyError, ValueError) as error:
        print(f"performance: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
