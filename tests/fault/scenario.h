/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A scenario that calls every public function, as a table of steps, for tests
 * that let something fail in it. A new function gets a step, or a line in one:
 * the tests find out which functions were called.
 */
#ifndef MOIETY_TESTS_FAULT_SCENARIO_H_
#define MOIETY_TESTS_FAULT_SCENARIO_H_

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace fault_test
{

// What the program holds. Calls may fail; what they promise in that case is
// checked, and what they refused to take is kept.
class World
{
  public:
    // `handles` are of another process's blocks.
    explicit World(const std::vector<moiety_ipc_handle> &handles);
    ~World();
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    // All steps; any call may fail. The pool is made in them, and destroyed in
    // the last one, before which `before_the_last` is called.
    void Run(const std::function<void()> &before_the_last = [] {});
    // Nothing fails any more: all that is held goes back to the pool, if there
    // is one, and from there to the driver.
    void ExpectPoolToBeWhole();
    // The same without the pool. Imports are closed, and a new pool works.
    void ExpectToEnd();

    unsigned failed_count() const
    {
        return failed_count_;
    }
    // The public functions that were called.
    const std::set<std::string> &called() const
    {
        return called_;
    }

    // For the steps: notes a call of a public function, whose status it returns.
    bool Try(const char *function, moiety_status status);
    bool TryToEnd(const char *function,
                  const std::function<moiety_status()> &end);
    void Note(const char *function)
    {
        called_.insert(function);
    }
    // A block for each size. Where there is no pool they do nothing.
    void Alloc(size_t size_bytes, moiety_stream stream);
    void Own(moiety_devptr address, size_t size_bytes);
    // Takes the newest block off the list, and puts it back if it stays ours.
    // `free` returns whether it was taken.
    template <typename Free> void FreeNewest(Free free)
    {
        if (blocks_.empty())
            return;
        auto block = blocks_.back();
        blocks_.pop_back();
        ranges_.Remove(block.first);
        if (!free(block.first, block.second))
            Own(block.first, block.second), kept_.push_back(block),
                blocks_.pop_back();
    }
    void FreeAll(moiety_stream stream);

    moiety_pool *pool = nullptr;
    pool_test::Stream first, second;
    moiety_event event;
    moiety_context further; // a second context of the device
    std::vector<moiety_ipc_handle> handles;
    std::vector<moiety_devptr> imported; // and not closed

  private:
    void ExpectImportsToClose();

    unsigned failed_count_ = 0;
    std::set<std::string> called_;
    pool_test::Ranges ranges_;
    std::vector<std::pair<moiety_devptr, size_t>> blocks_;
    std::vector<std::pair<moiety_devptr, size_t>> kept_; // frees refused
};

// In this order; each does without what an earlier one could not make. A step
// calls the driver through public functions only.
struct Step {
    const char *name;
    void (*run)(World &world);
};
extern const std::vector<Step> kSteps;
extern const Step kLastStep;

} // namespace fault_test

// TRY(world, moiety_pool_trim, (pool, 0, nullptr)): whether it was MOIETY_OK.
#define TRY(world, function, arguments)                                        \
    (world).Try(#function, function arguments)

// The same by a tool that calls the function.
#define TRY_NAMED(world, name, tool, arguments)                                \
    (world).Try(name, tool arguments)
// The same by a way of tests/support/tools/pools.h.
#define TRY_WAY(world, way, arguments)                                         \
    (world).Try("moiety_alloc_with", way arguments)
#define TRY_HOST_WAY(world, way, arguments)                                    \
    (world).Try("moiety_host_alloc_with", way arguments)

// The same until it is not refused as busy: what cannot be waited for is as it
// was, and the program asks again.
#define TRY_TO_END(world, function, arguments)                                 \
    (world).TryToEnd(#function, [&] { return function arguments; })

#endif
