/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A life of a pool that visits all that it does, for tests that let something
 * fail in it.
 */
#ifndef MOIETY_TESTS_POOL_API_POOL_LIFE_H_
#define MOIETY_TESTS_POOL_API_POOL_LIFE_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace pool_test
{

// A pool and what the program has of it. Calls may fail; what they promise in
// that case is checked.
class Life
{
  public:
    // NULL for the device's memory.
    explicit Life(const moiety_source *source);
    ~Life();
    Life(const Life &) = delete;
    Life &operator=(const Life &) = delete;

    // Any call of it may fail.
    void Run();
    // All calls succeed again, and what was freed can all be had.
    void ExpectHealth();
    // Destroys the pool.
    moiety_status End();

    unsigned failed_count() const
    {
        return failed_count_;
    }

  private:
    struct Block {
        moiety_devptr address;
        size_t size_bytes;
    };

    void Count(moiety_status status);
    void Alloc(size_t size_bytes, moiety_stream stream);
    // All or none.
    void AllocBatch(moiety_stream stream);
    // Frees the newest block by `call`; one that is refused stays ours.
    void FreeNewest(const std::function<moiety_status(const Block &)> &call);
    void FreeAll(moiety_stream stream);

    // So many that they leave the caches, freed in every way.
    void Small();
    void Large();
    // With further streams, and after an event.
    void Marked();
    // Everything is in caches or at the driver, and one call wants it all.
    void AtTheLimit();

    void ExpectAllToBeThere();
    void ExpectAllToGoBack();

    moiety_pool_options options_;
    moiety_pool *pool_ = nullptr;
    Stream first_, second_, third_;
    moiety_event event_;
    Ranges ranges_;
    std::vector<Block> blocks_;
    std::vector<Block> kept_;
    unsigned failed_count_ = 0;
};

} // namespace pool_test

#endif
