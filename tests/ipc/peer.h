/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Another process, from a test's point of view.
 */
#ifndef BINADE_TESTS_IPC_PEER_H_
#define BINADE_TESTS_IPC_PEER_H_

#include <sys/types.h>

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
    binade_status Import(const binade_ipc_handle &handle,
                         binade_devptr *out_address, int64_t device = 0);
    // The peer receives what the pool sends.
    binade_status Receive(binade_pool *pool, binade_devptr block,
                          binade_devptr *out_address);
    // The same through the descriptor, which Connect() returned.
    binade_status ReceiveOverTcp(binade_pool *pool, binade_devptr block,
                                 binade_devptr *out_address);
    // What a message of these bytes is.
    binade_status ReceiveBytesOverTcp(const std::vector<char> &bytes,
                                      binade_devptr *out_address);
    // This end of a TCP connection to the peer, until the peer's end.
    int Connect();
    // What the peer's send of its own block on it became; in that case it is on
    // its way here.
    binade_status SendOverTcp(binade_devptr address);
    binade_status ImportBytes(const binade_ipc_handle &handle, size_t bytes);
    // `out_closing` NULL: with a number that nobody wants.
    binade_status Close(binade_devptr address, On stream = On::kDone,
                        uint64_t *out_closing = nullptr);
    binade_status CloseAndWait(binade_devptr address, On stream);
    binade_status Wait(uint64_t closing, uint32_t timeout_ms);
    // How many segments are open afterwards.
    uint64_t Trim(uint32_t keep_count);
    // These expect BINADE_OK.
    binade_devptr Alloc(size_t size_bytes);
    binade_ipc_handle Export(binade_devptr address);

    bool Holds(binade_devptr address, size_t size_bytes, uint32_t word);
    void Fill(binade_devptr address, size_t size_bytes, uint32_t word);

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
    binade_status EndReceive(binade_devptr *out_address);

    int socket_ = -1;
    int tcp_ = -1;
    std::string message_;
};

} // namespace ipc_test

#endif
