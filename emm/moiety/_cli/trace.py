# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety trace convert, trace info."""

import functools
import json
import os
import stat
import sys
import time

from moiety._cli.command import TerminalLine, add_command, add_json, bar
from moiety._trace.convert import SOURCES, OptionError, Options, convert
from moiety._trace.files import named
from moiety._trace.format import TraceError
from moiety._trace.info import collect
from moiety._trace.writer import is_stdout

_SECONDS = 0.1  # between two looks


class Reading:
    """A context; what it gives is called with the bytes that were read and
    those of the file, and is None where nobody would see it."""

    def __init__(self, path, stream=None):
        self._name = os.path.basename(named(path))
        self._line = TerminalLine(stream)
        self._next = time.monotonic() + _SECONDS

    def __enter__(self):
        return self._watch if self._line.is_shown else None

    def __exit__(self, *_):
        self._line.clear()

    def _watch(self, done, size):
        if time.monotonic() < self._next or not size:
            return
        self._next = time.monotonic() + _SECONDS
        done = min(done, size)
        self._line.show(bar(done, size), f"{100 * done // size} %",
                        self._line.elapsed(), self._name)


_EXIT_CODES = """\
exit codes:
  0  done
  1  the input is damaged or cannot be read, or the output cannot be written:
     the message has the line or the offset
  2  the command line was wrong
"""

_CONVERT = """\
Makes a trace of a log or a snapshot. Reads files compressed by gzip, by zstd or
in a zip archive too; an output that ends with .gz is compressed. IN and OUT may
be -, standard input and output: what is told is then on standard error.
docs/dev/trace-format.md says what is dropped and counted.
"""

_CONVERT_EXAMPLES = """\
formats:
  rmm     the CSV of RMM's logging_resource_adaptor
  torch   a pickle of torch.cuda.memory._dump_snapshot()
  moiety  a trace: checked, its ids made small

examples:
  moiety trace convert rmm_log.csv run.mtrace.gz
  moiety trace convert --device=1 snapshot.pickle step.mtrace.gz
  moiety trace convert --nth=2 rmm_log.csv second.mtrace.gz
  xz -dc log.csv.xz | moiety trace convert - - | moiety trace info -
  moiety trace convert --from=rmm --json log.txt run.mtrace

"""

_INFO = """\
Reads a trace to its end, checks it, and tells what it comes to: operations,
threads, streams, time, and the most bytes that were live.
"""

_INFO_EXAMPLES = """\
examples:
  moiety trace info run.mtrace.gz
  moiety trace info --json run.mtrace.gz

"""


def _standard(path, descriptor):
    """What the command line calls - is standard input or output."""
    return descriptor if path == "-" else path


def _is_same(source, target):
    """Whether both are one file: what is read would be what is written."""
    try:
        one, other = os.stat(source), os.stat(target)
    except OSError:
        return False
    return os.path.samestat(one, other) and stat.S_ISREG(one.st_mode)


def _told_of(options, done):
    if options.json:
        return json.dumps(done, indent=1)
    counted = [f"{name} {count}" for name, count in done["counts"].items()]
    return ", ".join([f"{done['operations']} operations from {done['from']}",
                      f"peak_live_bytes {done['peak_live_bytes']}", *counted])


def _run_convert(command, options):
    source = _standard(options.input, 0)
    target = _standard(options.output, 1)
    if _is_same(source, target):
        command.error("IN and OUT are the same file")
    try:
        with Reading(source) as watch:
            done = convert(source, target, options.source,
                           Options(options.device, options.nth), watch)
    except OptionError as error:
        command.error(str(error))
    print(_told_of(options, done),
          file=sys.stderr if is_stdout(target) else sys.stdout)


def _run_info(options):
    source = _standard(options.input, 0)
    with Reading(source) as watch:
        about = collect(source, watch)
    if options.json:
        print(json.dumps(about, indent=1))
        return
    lines = []
    for name, value in about.items():
        if isinstance(value, dict):
            lines += [f"{name} {key}: {one}" for key, one in value.items()]
        else:
            lines.append(f"{name}: {'unknown' if value is None else value}")
    print("\n".join(lines))


def _guarded(run):
    """What was wrong with a file, as a message and an exit code."""
    def command(options):
        # Names in a trace may have letters that a terminal has not.
        sys.stdout.reconfigure(errors="backslashreplace")
        name = named(_standard(options.input, 0))
        try:
            run(options)
        except TraceError as error:
            print(f"moiety: {name}: {error}", file=sys.stderr)
            return 1
        except BrokenPipeError:
            raise  # whoever read the output has gone
        except OSError as error:
            print(f"moiety: {error.filename or name}: "
                  f"{error.strerror or error}", file=sys.stderr)
            return 1
        return 0
    return command


def _ordinal(text):
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _count(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _add_convert(commands):
    command = add_command(commands, "convert",
                          "make a trace of a log or a snapshot",
                          _CONVERT, _CONVERT_EXAMPLES + _EXIT_CODES)
    command.set_defaults(
        run=_guarded(functools.partial(_run_convert, command)))
    command.add_argument("input", metavar="IN",
                         help="the file to read, or - for standard input")
    command.add_argument("output", metavar="OUT",
                         help="the trace to write, .mtrace or .mtrace.gz, or - "
                         "for standard output")
    command.add_argument("--from", dest="source", choices=list(SOURCES),
                         help="what IN is, if its first bytes do not tell")
    command.add_argument("--device", type=_ordinal, metavar="N",
                         help="of a snapshot with several devices (torch)")
    command.add_argument("--nth", type=_count, metavar="N",
                         help="of a file with several logs, from 1 on (rmm)")
    add_json(command)


def _add_info(commands):
    command = add_command(commands, "info", "check a trace and describe it",
                          _INFO, _INFO_EXAMPLES + _EXIT_CODES)
    command.set_defaults(run=_guarded(_run_info))
    command.add_argument("input", metavar="IN",
                         help="the file to read, or - for standard input")
    add_json(command)


def add(commands):
    """The command `trace`, for a parser's subcommands."""
    trace = commands.add_parser(
        "trace", help="convert and describe recorded allocations")
    commands = trace.add_subparsers(metavar="COMMAND", required=True)
    _add_convert(commands)
    _add_info(commands)
