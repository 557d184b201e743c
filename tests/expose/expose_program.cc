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
    moiety_pool *pool = nullptr;
    moiety_host *arena = nullptr;
    char byte;
    pool_test::UseStandin();
    bool is_arena = count > 1 && std::strcmp(arguments[1], "arena") == 0;
    moiety_status status = is_arena ? moiety_host_create(nullptr, &arena)
                                    : moiety_pool_create(nullptr, &pool);
    if (status == MOIETY_OK)
        std::puts("ready");
    else
        std::printf("%s: %s\n", moiety_status_name(status),
                    moiety_last_error_message());
    std::fflush(stdout);
    if (read(0, &byte, 1) < 0)
        return 1;
    (void)moiety_pool_destroy(pool, nullptr);
    (void)moiety_host_destroy(arena, nullptr);
    return 0;
}
