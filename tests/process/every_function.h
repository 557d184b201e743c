/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call of every public function, for processes in which the library must not
 * be used any more.
 */
#ifndef MOIETY_TESTS_PROCESS_EVERY_FUNCTION_H_
#define MOIETY_TESTS_PROCESS_EVERY_FUNCTION_H_

#include <functional>
#include <map>
#include <string>

#include "moiety/ipc.h"
#include "moiety/moiety.h"
#include "moiety/region.h"

namespace process_test
{

// What the calls are made with: all of it good in the parent.
struct Arguments {
    moiety_pool *pool;
    moiety_devptr block; // exported
    moiety_stream stream;
    moiety_event event;
    moiety_context context;
    moiety_ipc_handle handle; // of the block
    moiety_tenant tenant;
    moiety_private arena;
    moiety_host *host;
    void *host_block;
    moiety_growth *growth; // that is over
    moiety_keeper *keeper;
    moiety_region *region; // is being written
};

// By the name of the function: true if the answer is the one for the child of a
// fork: MOIETY_E_FORKED where there is a status. The calls ask for no memory.
// `arguments` is to outlive them.
std::map<std::string, std::function<bool()>>
EveryFunctionInAChild(const Arguments &arguments);

} // namespace process_test

#endif
