# SPDX-License-Identifier: Apache-2.0
"""Looks for files with which a reader of traces breaks its rule, trace_rule.py.

usage: python3 trace_fuzz.py READER FOLDER [LIBFUZZER_OPTION]...
       python3 trace_fuzz.py READER FOLDER --pack

READER is text, rmm or torch. What is worth keeping is collected in FOLDER,
which begins with the committed corpus. --pack writes the corpus anew, of the
smallest files there that reach all that any of them reaches. The package has to
be on PYTHONPATH (bazel-bin/emm/site), and Atheris installed, which nothing else
here needs.
"""

import hashlib
import pathlib
import resource
import sys
import time

# Nothing here that imports the package, which Atheris has to do.
import trace_corpus

CPU_S_MAX = 2
# Of the clock, for what never ends; others may have the processor meanwhile.
TIMEOUT_S = 60
MEMORY_BYTES_MAX = 256 << 20


def unpack(reader, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for data in trace_corpus.load(reader):
        name = hashlib.sha1(data).hexdigest()
        (folder / name).write_bytes(data)


def limit_memory():
    """Of all that is allocated from now on, so that what is too much raises
    MemoryError where it is asked for."""
    status = pathlib.Path("/proc/self/status").read_text()
    used_kib = int(status.split("VmData:")[1].split()[0])
    limit = (used_kib << 10) + MEMORY_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def fuzz(reader, folder, options):
    import atheris
    with atheris.instrument_imports(include=["moiety"]):
        import trace_rule
        from trace_snapshot_mutator import mutate

    def mutated(data, bytes_max, seed):
        made = mutate(data, bytes_max, seed) if seed % 2 else None
        return atheris.Mutate(data, bytes_max) if made is None else made

    def one_input(data):
        start_s = time.process_time()
        for read in trace_rule.READERS[reader]:
            trace_rule.check(read, data)
        if time.process_time() - start_s > CPU_S_MAX:
            raise trace_rule.Breach(f"more than {CPU_S_MAX} s of a processor")

    atheris.Setup(
        [sys.argv[0], f"-timeout={TIMEOUT_S}",
         f"-max_len={trace_corpus.INPUT_BYTES_MAX}", "-rss_limit_mb=0",
         *options, str(folder)],
        one_input, custom_mutator=mutated if reader == "torch" else None)
    limit_memory()
    atheris.Fuzz()


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in trace_corpus.NAMES:
        sys.exit(__doc__)
    reader, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if sys.argv[3:] == ["--pack"]:
        from trace_pack import pack
        pack(reader, folder)
        return
    unpack(reader, folder)
    fuzz(reader, folder, sys.argv[3:])


if __name__ == "__main__":
    main()
