// SPDX-License-Identifier: Apache-2.0
#include "tests/expose/expose_under_test.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace expose_test
{
namespace
{

constexpr int kPatienceMs = 300000;

sockaddr_un AddressOf(const std::string &path)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

} // namespace

void ExposeTest::SetUp()
{
    // Not TEST_TMPDIR: a socket's path is short.
    char folder[] = "/tmp/moiety-expose-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(folder));
    folder_ = folder;
    pool_test::UseStandin();
}

void ExposeTest::TearDown()
{
    EXPECT_OK(moiety_expose_stop());
    EXPECT_EQ(0, rmdir(folder_.c_str())) << "something is left in it";
}

void ExposeTest::Start(const std::string &name)
{
    ASSERT_OK(moiety_expose_start(Path(name).c_str()));
}

bool ExposeTest::IsThere(const std::string &name) const
{
    struct stat found;
    return lstat(Path(name).c_str(), &found) == 0;
}

Client::Client(const std::string &path)
{
    sockaddr_un address = AddressOf(path);
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(socket_, reinterpret_cast<sockaddr *>(&address),
                sizeof(address)) == 0)
        return;
    close(socket_);
    socket_ = -1;
}

Client::~Client()
{
    if (socket_ >= 0)
        close(socket_);
}

void Client::Send(const std::string &text) const
{
    ssize_t sent = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    // It may have been turned away already.
    if (sent < 0)
        EXPECT_EQ(EPIPE, errno);
    else
        EXPECT_EQ(text.size(), static_cast<size_t>(sent));
}

void Client::AwaitAnswer() const
{
    pollfd watched = {socket_, POLLIN, 0};
    EXPECT_EQ(1, poll(&watched, 1, kPatienceMs));
}

std::string Client::Receive() const
{
    std::string all;
    char piece[65536];
    for (;;) {
        pollfd watched = {socket_, POLLIN, 0};
        if (poll(&watched, 1, kPatienceMs) != 1) {
            ADD_FAILURE() << "no end after " << all.size() << " bytes";
            return all;
        }
        ssize_t got = recv(socket_, piece, sizeof(piece), 0);
        if (got <= 0)
            return all;
        all.append(piece, static_cast<size_t>(got));
    }
}

std::string Ask(const std::string &path, const std::string &request)
{
    Client client(path);
    if (!client.is_connected())
        return "nobody serves";
    client.Send(request + "\n");
    return client.Receive();
}

bool Has(const std::string &text, const std::string &key, uint64_t value)
{
    std::string wanted = "\"" + key + "\": " + std::to_string(value);
    size_t at = text.find(wanted);
    return at != std::string::npos && !std::isdigit(text[at + wanted.size()]);
}

bool Has(const std::string &text, const std::string &key,
         const std::string &value)
{
    return text.find("\"" + key + "\": \"" + value + "\"") != std::string::npos;
}

unsigned OpenFiles()
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

int ListenAt(const std::string &path)
{
    sockaddr_un address = AddressOf(path);
    int own = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(
        0, bind(own, reinterpret_cast<sockaddr *>(&address), sizeof(address)));
    EXPECT_EQ(0, listen(own, 1));
    return own;
}

} // namespace expose_test
