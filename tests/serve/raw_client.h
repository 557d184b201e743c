/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Clients of a keeper without the library, who may break the protocol.
 */
#ifndef MOIETY_TESTS_SERVE_RAW_CLIENT_H_
#define MOIETY_TESTS_SERVE_RAW_CLIENT_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/serve/keeper_under_test.h"

namespace serve_test
{

using Bytes = std::vector<char>;

// A sound request; tests/serve/frame_probe.h has the kinds.
Bytes Frame(const char *kind);
// A region of one part, of `handles` handles of 2 MiB; its token is 1.
Bytes CreateFrame(const std::string &name, uint64_t handles = 1);
// Puts a memory of the stand-in into handle `first`; of the lease 1.
Bytes PutFrame(uint64_t first = 0);

int MakeMemfd(size_t bytes = 4096, bool is_sealed = false);

// A connection to the keeper.
class Raw
{
  public:
    explicit Raw(const std::string &path);
    ~Raw();
    Raw(const Raw &) = delete;
    Raw &operator=(const Raw &) = delete;

    int socket() const
    {
        return socket_;
    }
    bool Send(const Bytes &bytes, const std::vector<int> &descriptors = {},
              int flags = 0);
    // Descriptors that came are closed at the next call. Empty: the keeper has
    // closed its end, or nothing is there and `flags` do not wait.
    Bytes Receive(int flags = 0);
    // The status of the reply; -1: the keeper has closed its end.
    int Ask(const Bytes &bytes, const std::vector<int> &descriptors = {});
    // Whether it ends after what is still to be read.
    bool IsCutOff();
    // Whether there is something to read, in `wait_ms` at the latest.
    bool HasReply(int wait_ms = 0) const;
    const Bytes &reply() const
    {
        return reply_;
    }
    const std::vector<int> &descriptors() const
    {
        return descriptors_;
    }

  private:
    void CloseAll();

    int socket_;
    Bytes reply_;
    std::vector<int> descriptors_;
};

// A committed region of one handle, by the lease `token`, which stays.
void Commit(Raw &raw, const std::string &name, uint64_t token);

// A region "r" of so many handles, put one by one until the keeper takes no more. How
// many it took.
unsigned PutAll(Raw &raw, unsigned handles);

// The status of a request of a lease.
int AskOf(Raw &raw, const char *kind, const std::string &name, uint64_t token,
          uint64_t is_writer = 0);

// The state of the first region; 0: there is none.
uint64_t FirstState(Raw &raw);

// Of the two processes of a keeper that has no regions any more, and no clients.
struct Descriptors {
    size_t vault = 0;
    size_t server = 0;
};
Descriptors IdleDescriptors(const Keeper &keeper);
// When it has closed what clients left.
bool HasDescriptors(pid_t pid, size_t count);

// Whether a keeper at the path answers.
bool IsAnswered(const std::string &path);

} // namespace serve_test

#endif
