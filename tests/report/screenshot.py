# SPDX-License-Identifier: Apache-2.0
"""Makes a PNG of a report.

usage: screenshot.py [--width=1280] [--height=PIXELS] [--of=SELECTOR] [--dark]
                     REPORT PICTURE

It has to run with what the tests have: .venv/bin/python.
"""

import argparse
import tempfile

from browser import Browser


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int,
                        help="of the picture; else the whole page")
    parser.add_argument("--of", default="html",
                        help="the element, as CSS names it: #c0 .plots")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("report")
    parser.add_argument("picture")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with Browser(folder) as browser:
            # A picture has none, and all that is on the page would be moved.
            browser.call("Emulation.setScrollbarsHidden", hidden=True)
            browser.look(options.width, options.height or 900,
                         "dark" if options.dark else "light")
            browser.open(options.report)
            browser.picture(options.picture, options.of, options.height)


if __name__ == "__main__":
    main()
