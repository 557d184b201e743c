/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A keeper in processes of its own, and processes that use regions. The test's own
 * process uses neither the driver nor the library.
 */
#ifndef MOIETY_TESTS_SERVE_KEEPER_UNDER_TEST_H_
#define MOIETY_TESTS_SERVE_KEEPER_UNDER_TEST_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "moiety/region.h"

namespace serve_test
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;

struct Limits {
    uint64_t descriptors = 0; // 0: as they are
    // A kernel without SO_PEERPIDFD, and one that refuses pidfd_open() too.
    bool lacks_peer_pidfd = false;
    bool lacks_pidfd_open = false;
    // Nobody reads what it writes to stderr, and a write is a SIGPIPE.
    bool has_broken_stderr = false;
};

// To one process, and never to all, which is what a pid of -1 means.
void SignalOne(pid_t pid, int number);

// -1: it has none now.
pid_t ChildOf(pid_t pid);

// Of a process, which is not this one, as the kernel lists them; 0: it has ended.
size_t OpenDescriptors(pid_t pid);
uint64_t ResidentBytes(pid_t pid);

// From 0 to `end` - 1.
unsigned Below(std::mt19937 &random, unsigned end);

// A number for a longer run of a test, by the environment.
unsigned NumberOf(const char *variable, unsigned otherwise);

// A program that was started, with pipes to its standard input and output.
class Process
{
  public:
    explicit Process(const std::vector<std::string> &arguments,
                     const Limits &limits = {});
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;
    pid_t pid() const
    {
        return pid_;
    }
    void Signal(int number);
    // Its exit status as a shell says it.
    int Wait();
    bool Write(const std::string &line);
    // Without the end of line; "": it has ended.
    std::string Read();

  private:
    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
};

// A folder for a socket's short path.
class Folder
{
  public:
    Folder();
    ~Folder();
    std::string Path(const std::string &name) const;

  private:
    std::string path_;
};

// moiety-serve, when it answers.
class Keeper
{
  public:
    explicit Keeper(const std::vector<std::string> &more = {},
                    const Limits &limits = {});
    ~Keeper();
    const std::string &path() const
    {
        return path_;
    }
    pid_t vault_pid() const
    {
        return process_.pid();
    }
    // The process for clients, as soon as the vault has forked it.
    pid_t server() const;
    // Kills that process and waits until there is another one that answers.
    void KillServer();
    int Stop();
    // What it ends with by itself.
    int Wait();
    // To the vault, which is the process that a user knows.
    void Signal(int number);

  private:
    Folder folder_;
    std::string path_;
    Process process_;
};

struct Reply {
    int status = -1; // moiety_status; -1: the process has ended
    uint64_t value = 0;
    std::string text;
};

// tests/serve/region_program.cc: its commands are there.
class Worker
{
  public:
    explicit Worker(const std::string &path);
    Reply Do(const std::string &command);
    // Expects MOIETY_OK.
    Reply Must(const std::string &command);
    void Kill();
    pid_t pid() const
    {
        return process_.pid();
    }

  private:
    Process process_;
};

// Looks again until it is so, for at most a minute: a test that hangs.
bool Eventually(const std::function<bool()> &is_so);

// A connected socket to the keeper, without the library.
int RawConnect(const std::string &path);
// Whether a process listens there.
bool Connects(const std::string &path);

} // namespace serve_test

#endif
