/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Another process, from a test's point of view.
 */
#ifndef MOIETY_TESTS_IPC_PEER_H_
#define MOIETY_TESTS_IPC_PEER_H_

#include <sys/types.h>

#include "moiety/ipc.h"

#include <string>
#include <vector>

#include "tests/ipc/peer_protocol.h"

namespace ipc_test
{

class Peer
{
  public:
    // `settings` are added to its environment: "NAME=value".
    explicit Peer(const std::vector<std::string> &settings = {});
    // It ends by itself, unless it was killed.
    ~Peer();
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;

    Reply Ask(const Command &command);
    // For what cannot fail: the reply's value.
    uint64_t Ask(Do what, uint64_t address = 0, uint64_t size_bytes = 0,
                 uint64_t value = 0);

    // These return what became of the call.
    moiety_status Import(const moiety_ipc_handle &handle,
                         moiety_devptr *out_address, int64_t device = 0);
    // The peer receives what the pool sends.
    moiety_status Receive(moiety_pool *pool, moiety_devptr block,
                          moiety_devptr *out_address);
    // The same through the descriptor, which Connect() returned.
    moiety_status ReceiveOverTcp(moiety_pool *pool, moiety_devptr block,
                                 moiety_devptr *out_address);
    // What a message of these bytes is.
    moiety_status ReceiveBytesOverTcp(const std::vector<char> &bytes,
                                      moiety_devptr *out_address);
    // This end of a TCP connection to the peer, until the peer's end.
    int Connect();
    // What the peer's send of its own block on it became; in that case it is on
    // its way here.
    moiety_status SendOverTcp(moiety_devptr address);
    moiety_status ImportBytes(const moiety_ipc_handle &handle, size_t bytes);
    // `out_closing` NULL: with a number that nobody wants.
    moiety_status Close(moiety_devptr address, On stream = On::kDone,
                        uint64_t *out_closing = nullptr);
    moiety_status CloseAndWait(moiety_devptr address, On stream);
    moiety_status Wait(uint64_t closing, uint32_t timeout_ms);
    // How many segments are open afterwards.
    uint64_t Trim(uint32_t keep_count);
    // These expect MOIETY_OK.
    moiety_devptr Alloc(size_t size_bytes);
    moiety_ipc_handle Export(moiety_devptr address);

    bool Holds(moiety_devptr address, size_t size_bytes, uint32_t word);
    void Fill(moiety_devptr address, size_t size_bytes, uint32_t word);

    // What the last call said.
    const std::string &message() const
    {
        return message_;
    }

    void Kill();
    // Kills it, but does not wait: it is a zombie then.
    void KillOnly();
    // Lets it end, and waits.
    void End();

  private:
    pid_t pid_ = -1;
    void BeginReceive(Do what);
    moiety_status EndReceive(moiety_devptr *out_address);

    int socket_ = -1;
    int tcp_ = -1;
    std::string message_;
};

} // namespace ipc_test

#endif
