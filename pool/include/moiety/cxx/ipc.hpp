/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of other processes: moiety/moiety.hpp.
 */
#ifndef MOIETY_CXX_IPC_HPP_
#define MOIETY_CXX_IPC_HPP_

#include <cstdint>
#include <utility>

#include "moiety/cxx/error.hpp"
#include "moiety/ipc.h"

namespace moiety
{

/** The work behind a closed import. A copy means the same work. */
class ipc_closing
{
  public:
    ipc_closing() = default;
    explicit ipc_closing(moiety_closing closing) noexcept : closing_(closing) {}

    moiety_closing get() const noexcept
    {
        return closing_;
    }
    /** Whether it is over, so that the owner may be told: moiety_ipc_wait(). */
    bool wait(std::uint32_t timeout_ms) const
    {
        moiety_status status = moiety_ipc_wait(closing_, timeout_ms);
        if (status == MOIETY_E_TIMEOUT)
            return false;
        check(status);
        return true;
    }

  private:
    moiety_closing closing_ = nullptr;
};

/** Owns an import. It ends on `stream()`, whose queued work uses the memory last. */
class ipc_import
{
  public:
    /** moiety_ipc_import(). `context` may be null. */
    ipc_import(const moiety_ipc_handle &handle, moiety_context context,
               moiety_stream stream)
        : stream_(stream), size_bytes_(handle.size_bytes)
    {
        check(moiety_ipc_import(&handle, sizeof handle, context,
                                &address_.value));
    }
    /** moiety_ipc_receive(). `context` may be null. */
    ipc_import(int socket, moiety_context context, moiety_stream stream)
        : stream_(stream)
    {
        moiety_ipc_handle handle{};
        check(moiety_ipc_receive(socket, context, &handle, &address_.value));
        size_bytes_.value = handle.size_bytes;
    }
    ipc_import(ipc_import &&) noexcept = default;
    ipc_import &operator=(ipc_import &&) noexcept = default;
    /** Closes it, and waits until its work is over. If that is refused, the import
     *  stays open until the process ends. */
    ~ipc_import()
    {
        if (address())
            report(moiety_ipc_close(address(), stream(), nullptr),
                   "moiety::~ipc_import");
    }

    moiety_devptr address() const noexcept
    {
        return address_.value;
    }
    void *data() const noexcept
    {
        return reinterpret_cast<void *>(address_.value);
    }
    /** Bytes from the address to the end of its block. */
    std::uint64_t size() const noexcept
    {
        return size_bytes_.value;
    }
    moiety_stream stream() const noexcept
    {
        return stream_.value;
    }
    void set_stream(moiety_stream stream) noexcept
    {
        stream_.value = stream;
    }
    /** Closes it without waiting. It stays open if that is refused. */
    ipc_closing close()
    {
        moiety_closing closing = nullptr;
        check(moiety_ipc_close(address(), stream(), &closing));
        address_.value = 0;
        size_bytes_.value = 0;
        return ipc_closing(closing);
    }

  private:
    detail::held<moiety_devptr> address_;
    detail::held<moiety_stream> stream_;
    detail::held<std::uint64_t> size_bytes_;
};

} // namespace moiety

#endif
