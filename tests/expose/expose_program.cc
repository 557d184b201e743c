// SPDX-License-Identifier: Apache-2.0
//
// A process with a pool or an arena, until it reads a byte. expose_program WHAT
//
// Says "ready", or what was refused.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/pool/pool_under_test.h"

int main(int count, char **arguments)
{
    binade_pool *pool = nullptr;
    binade_host *arena = nullptr;
    char byte;
    pool_test::UseStandin();
    bool is_arena = count > 1 && std::strcmp(arguments[1], "arena") == 0;
    binade_status status = is_arena ? binade_host_create(nullptr, &arena)
                                    : binade_pool_create(nullptr, &pool);
    if (status == BINADE_OK)
        std::puts("ready");
    else
        std::printf("%s: %s\n", binade_status_name(status),
                    binade_last_error_message());
    std::fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    (void)binade_pool_destroy(pool, nullptr);
    (void)binade_host_destroy(arena, nullptr);
    return 0;
}
