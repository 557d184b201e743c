/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the program says of itself.
 */
#include <stdio.h>

#include "bench/harness/options.h"

static const char help[] =
    "usage: bench [--workload=W[,W]] [--subject=S[,S]] [--threads=N[,N]]\n"
    "             [--size=BYTES[,BYTES]] [--json=FILE] [OPTION]\n"
    "  --workload=W   which workloads (default: all but those that --list "
    "marks\n"
    "                 with an asterisk)\n"
    "  --subject=S    which subjects (default: all that can run here)\n"
    "  --threads=N    numbers of threads, 1 to 256 (default: the powers of "
    "two\n"
    "                 up to the number of processors, at most 16)\n"
    "  --size=BYTES   block size, 1 to 1MiB, of the workloads that have\n"
    "                 none of their own (default 65536)\n"
    "  --json=FILE    where to write the results, a JSON object a line, at "
    "the\n"
    "                 end (default: standard output). FILE.raw.jsonl gets "
    "what\n"
    "                 each process measures as soon as it is there\n"
    "  --repeats=N    processes a subject, 1 to 100 (default 5)\n"
    "  --budget=SECS  time for all, 1 to 86400 (default 480). It is kept: it "
    "is\n"
    "                 divided among what is still to be measured; what takes\n"
    "                 too long is killed, and what has no time is left out\n"
    "  --cell-us=N    longest measurement of a cell in one process, 1000 to\n"
    "                 10000000 (default 100000), set-up apart; half a cell's\n"
    "                 share of the budget if that is less\n"
    "  --driver=D     auto, cuda, standin or a path with a / in it (default:\n"
    "                 what MOIETY_DRIVER says)\n"
    "  --lag=L        what the device does meanwhile: idle (default), held, "
    "or\n"
    "                 work:N, fill:N and sync:N, as bench/lag/plan.h has "
    "them;\n"
    "                 of subjects that keep the order of streams. What "
    "queueing\n"
    "                 takes is subtracted\n"
    "  --streams=N    which the threads share in turn, 1 to 256 (default: "
    "each\n"
    "                 thread has its own); streams* have their own number\n"
    "  --seed=N       of the random numbers (default 1)\n"
    "  --commit=ID    of what is measured (default: what git says)\n"
    "  --list         names the workloads and the subjects\n"
    "\n"
    "How it measures. The program runs itself once for each subject and "
    "repeat,\n"
    "all subjects before the next repeat; such a process runs its subject "
    "over\n"
    "all cells of workload, size and threads. Each thread is pinned to a\n"
    "processor. A cell is a warm-up, five repetitions in which batches of\n"
    "operations are timed, and two in which every single call is. Repetitions "
    "in\n"
    "which the system took the processor from a thread are thrown away, "
    "counted\n"
    "and repeated, up to three times as many; where only such are left, they\n"
    "are taken and \"clean\" is false.\n"
    "An operation is an allocation and a free; ns_per_op_* are of one thread.\n"
    "A batch is 32 to 64 operations, or as many as the workload's burst has;\n"
    "ns_per_op_median, _p99 and _p999 are quantiles over the batches, of a\n"
    "batch's time divided by its operations, so they hide what a single call\n"
    "waited; ns_per_op_mean is all time by all operations, which is what a\n"
    "thread gets where some batches wait long for a lock. ns_per_call_p99 and "
    "_p999 are quantiles over single calls, an\n"
    "allocation or a free, with the clock's own time subtracted. Each number "
    "is\n"
    "the median over the processes; ns_per_op_median_min and _max are the "
    "least\n"
    "and the greatest median of a process. cache_hit_rate is the part of\n"
    "allocations that the thread's cache served, null where there is none.\n"
    "\"failure\" is null, or why some process did not measure the cell; "
    "\"repeats\"\n"
    "says how many did. SIGINT and SIGTERM end the run; what was measured is\n"
    "written.\n"
    "\n"
    "exit status: 0 all well; 1 a measurement failed; 2 bad argument;\n"
    "             3 a subject that was named cannot run here; 4 interrupted\n";

void options_print_help(void)
{
    (void)fputs(help, stdout);
}

void options_print_list(void)
{
    puts("workloads:");
    for (size_t i = 0; workloads[i]; i++)
        printf("  %-18s %s%s\n", workloads[i]->name, workloads[i]->description,
               workloads[i]->is_extra ? " *" : "");
    puts("subjects:");
    for (size_t i = 0; workload_subjects[i]; i++)
        printf("  %-18s %s\n", workload_subjects[i]->name,
               workload_subjects[i]->description);
}
