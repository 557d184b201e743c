/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sockets within this machine. What cannot fail ends the process.
 */
#ifndef MOIETY_TESTS_IPC_TCP_H_
#define MOIETY_TESTS_IPC_TCP_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace ipc_test
{

inline int Sound(int descriptor)
{
    if (descriptor < 0) {
        std::perror("TCP within this machine");
        std::abort();
    }
    return descriptor;
}

inline sockaddr_in LoopbackAt(uint16_t port)
{
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

inline int TcpSocket()
{
    return Sound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

inline int Listen(uint16_t *out_port)
{
    sockaddr_in address = LoopbackAt(0);
    socklen_t size = sizeof address;
    auto *any = reinterpret_cast<sockaddr *>(&address);
    int listener = TcpSocket();
    Sound(bind(listener, any, size));
    Sound(listen(listener, 1));
    Sound(getsockname(listener, any, &size));
    *out_port = ntohs(address.sin_port);
    return listener;
}

inline int Accept(int listener)
{
    return Sound(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
}

inline int ConnectTo(uint16_t port)
{
    sockaddr_in address = LoopbackAt(port);
    int connected = TcpSocket();
    Sound(connect(connected, reinterpret_cast<sockaddr *>(&address),
                  sizeof address));
    return connected;
}

// Both ends of a connection: of TCP, or of UNIX sockets of a type.
class Pair
{
  public:
    static constexpr int kTcp = 0;

    explicit Pair(int type = kTcp)
    {
        if (type != kTcp) {
            Sound(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends_));
            return;
        }
        uint16_t port;
        int listener = Listen(&port);
        ends_[0] = ConnectTo(port);
        ends_[1] = Accept(listener);
        close(listener);
    }

    ~Pair()
    {
        close(ends_[0]);
        close(ends_[1]);
    }

    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;

    int one() const
    {
        return ends_[0];
    }

    int other() const
    {
        return ends_[1];
    }

    void CloseOther()
    {
        close(ends_[1]);
        ends_[1] = -1;
    }

  private:
    int ends_[2] = {-1, -1};
};

} // namespace ipc_test

#endif
