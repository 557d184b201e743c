/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of this test's own folder, and a client that may behave as it likes.
 */
#ifndef MOIETY_TESTS_EXPOSE_EXPOSE_UNDER_TEST_H_
#define MOIETY_TESTS_EXPOSE_EXPOSE_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/pool/pool_under_test.h"

namespace expose_test
{

// In the test's own folder, of which nothing is left when the test ends. Its
// end stops serving.
class ExposeTest : public testing::Test
{
  protected:
    void SetUp() override;
    void TearDown() override;
    std::string Path(const std::string &name = "s") const
    {
        return folder_ + "/" + name;
    }
    void Start(const std::string &name = "s");
    // Whether something is there, whatever it is.
    bool IsThere(const std::string &name = "s") const;

  private:
    std::string folder_;
};

class Client
{
  public:
    // Not connected where nobody serves.
    explicit Client(const std::string &path);
    ~Client();
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;
    bool is_connected() const
    {
        return socket_ >= 0;
    }
    void Send(const std::string &text) const;
    // Waits until something of the answer has come.
    void AwaitAnswer() const;
    // All up to the end.
    std::string Receive() const;

  private:
    int socket_ = -1;
};

// One line, and what is answered.
std::string Ask(const std::string &path, const std::string &request);
// Whether a JSON text has "key": value.
bool Has(const std::string &text, const std::string &key, uint64_t value);
bool Has(const std::string &text, const std::string &key,
         const std::string &value);
// Of this process.
unsigned OpenFiles();
// Listens there, or did: a socket that nobody serves any more.
int ListenAt(const std::string &path);

} // namespace expose_test

#endif
