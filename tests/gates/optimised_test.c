/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything in the repository is compiled with the flags of .bazelrc and has
 * none of its own, so what holds for this file holds for what users run.
 * tests/gates/build_gates_test.sh shows that it fails with -c fastbuild.
 */
#include <stdio.h>

int main(void)
{
#if defined(__OPTIMIZE__)
    puts("optimised_test: the compiler optimises");
    return 0;
#else
    fputs("optimised_test: compiled without optimisation: .bazelrc says "
          "build -c opt, something on the command line says otherwise\n",
          stderr);
    return 1;
#endif
}
