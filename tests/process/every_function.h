/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call of every public function, for processes in which the library must not
 * be used any more.
 */
#ifndef BINADE_TESTS_PROCESS_EVERY_FUNCTION_H_
#define BINADE_TESTS_PROCESS_EVERY_FUNCTION_H_

#include <functional>
#include <map>
#include <string>

#include "binade/binade.h"

namespace process_test
{

// What the calls are made with: all of it good in the parent.
struct Arguments {
    binade_pool *pool;
    binade_devptr block; // exported
    binade_stream stream;
    binade_event event;
    binade_context context;
    binade_ipc_handle handle; // of the block
    binade_tenant tenant;
    binade_private arena;
    binade_host *host;
    void *host_block;
};

// By the name of the function: true if the answer is the one for the child of a
// fork: BINADE_E_FORKED where there is a status. The calls ask for no memory.
// `arguments` is to outlive them.
std::map<std::string, std::function<bool()>>
EveryFunctionInAChild(const Arguments &arguments);

} // namespace process_test

#endif
