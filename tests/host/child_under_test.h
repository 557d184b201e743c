/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the child of a fork has of its parent's memory.
 */
#ifndef MOIETY_TESTS_HOST_CHILD_UNDER_TEST_H_
#define MOIETY_TESTS_HOST_CHILD_UNDER_TEST_H_

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace host_test
{

// As the kernel says: dc stands for "not copied at a fork".
inline bool IsKeptFromChildren(const void *address)
{
    std::ifstream maps("/proc/self/smaps");
    uintptr_t at = reinterpret_cast<uintptr_t>(address);
    bool is_there = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long first = 0, end = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2)
            is_there = first <= at && at < end;
        if (is_there && line.rfind("VmFlags:", 0) == 0)
            return line.find(" dc") != std::string::npos;
    }
    ADD_FAILURE() << address << " is not mapped";
    return false;
}

// Whether a child reads `expected` there; it may end by SIGSEGV instead.
inline bool ChildHas(const volatile char *address, char expected)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);
        _exit(*address == expected ? 0 : 1);
    }
    EXPECT_EQ(child, waitpid(child, &status, 0));
    bool is_fault = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
    EXPECT_TRUE(is_fault || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        << status;
    return !is_fault;
}

} // namespace host_test

#endif
