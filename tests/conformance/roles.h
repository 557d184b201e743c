/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Roles: parts of a test that need a process of their own, because they must
 * come before cuInit, ruin a context, fork, or be the other end of an import.
 * The test binary starts itself again with the role's name.
 */
#ifndef MOIETY_TESTS_CONFORMANCE_ROLES_H_
#define MOIETY_TESTS_CONFORMANCE_ROLES_H_

#include <cstddef>
#include <string>

namespace conformance
{

/* Where a role finds its socket. */
constexpr int kPeerDescriptor = 3;

/* `peer` is a connected socket to the process that started the role. */
using Role = void (*)(int peer);

/* ROLE(name) { … } defines a role; `peer` is in scope. The driver is open but
 * not initialised. */
#define ROLE(name)                                                             \
    static void Role_##name(int peer);                                         \
    [[maybe_unused]] static const bool is_role_##name##_known =                \
        ::conformance::RegisterRole(#name, Role_##name);                       \
    static void Role_##name([[maybe_unused]] int peer)

bool RegisterRole(const char *name, Role role);

/* Runs a registered role in this process; its exit status. */
int PlayRole(const std::string &name, int peer);

/* A process that plays a role; its check lines are counted here. */
class RoleProcess
{
  public:
    explicit RoleProcess(const std::string &name);
    ~RoleProcess();
    RoleProcess(const RoleProcess &) = delete;
    RoleProcess &operator=(const RoleProcess &) = delete;

    int peer() const
    {
        return peer_;
    }
    /* Relays what the role prints until it ends; a check says that it ended
     * by itself. */
    void Finish();

  private:
    void RelayOutput();

    std::string name_;
    int peer_ = -1;
    int output_ = -1;
    int pid_ = -1;
};

/* Starts the role and waits for its end. */
void RunRole(const std::string &name);

/* Whole messages over `peer`; they throw when the other end is gone. */
void Send(int peer, const void *bytes, size_t size_bytes);
void Receive(int peer, void *bytes, size_t size_bytes);
/* One byte, to agree on an order. */
void SendTurn(int peer);
void AwaitTurn(int peer);
void SendDescriptor(int peer, int descriptor);
int ReceiveDescriptor(int peer);

} // namespace conformance

#endif
