/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rules of docs/streams.md as a table: which stream may have a freed block,
 * and when.
 */
#ifndef MOIETY_TESTS_STREAMS_RULES_H_
#define MOIETY_TESTS_STREAMS_RULES_H_

#include <cstddef>
#include <vector>

namespace streams_test
{

enum Who {
    NOBODY,
    F, // three streams
    N,
    O,
    LEGACY,
    ZERO,   // the legacy stream by its other name
    MINE,   // the per-thread stream of the test's thread
    THEIRS, // that of another thread
    ANY,
    DONE,
    CAPTURING, // N in a capture scope
    ALL,       // F, N and O, of streams that are held
};

// Which thread frees the blocks. The test's thread does the rest.
enum Thread {
    TEST,
    ANOTHER,
    BUSY_OTHER, // it also asks for blocks
    ENDED,      // it ends before a block is asked for
    REPLACED,   // and one that comes later asks
};

enum How {
    ON,          // moiety_free(), on a stream
    AFTER_EVENT, // on an event of a stream
    RECORDED_AGAIN,
    DESTROYED, // the event, after the call
    OWN,       // on the stream that the blocks were allocated for
};

struct Way {
    How how;
    Who who;
    std::vector<Who> users = {};
    Thread thread = TEST;
    bool is_retired = false; // the stream; of OWN before the free

    Way UsedBy(const std::vector<Who> &others) const;
    Way By(Thread freer) const;
    Way Retired() const;
};

inline Way On(Who stream)
{
    return {ON, stream};
}

enum When {
    NEVER,
    AT_ONCE,
    WHEN_DONE, // once the hold is released
    BEHIND,    // at once, and the stream waits for the hold
};

struct Served {
    Who who;
    When when;
};

inline Served AtOnce(Who stream)
{
    return {stream, AT_ONCE};
}

inline Served WhenDone(Who stream)
{
    return {stream, WHEN_DONE};
}

inline Served Behind(Who stream)
{
    return {stream, BEHIND};
}

constexpr Served kNever = {NOBODY, NEVER};

struct Rule {
    const char *name;
    Who held;                 // the stream whose work is not over
    Way freed;                // how all blocks are freed
    std::vector<Who> refused; // while the stream is held
    Served served;
    size_t size_bytes = 0; // of what is asked for, if not as before
};

const std::vector<Rule> &Rules();

} // namespace streams_test

#endif
