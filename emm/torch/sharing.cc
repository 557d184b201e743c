/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sharing.h"

#include <moiety/ipc.h>

#include "pools.h"

#include <cstring>

namespace moiety_torch
{

namespace
{

/* Before the handle's bytes: so that those of PyTorch's own are told apart. */
constexpr char kMark[] = "moiety1";

} // namespace

c10::cuda::CUDACachingAllocator::ShareableHandle
Sharing::share(moiety_pool *pool, void *inside)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = exported_.find(inside);
    if (found == exported_.end()) {
        moiety_ipc_handle made;
        check(moiety_ipc_export(pool, address_of(inside), &made),
              "the tensor's memory cannot be shared with other processes; "
              "moiety.torch.enable(ipc=True) makes memory that can");
        found = exported_.emplace(inside, made).first;
        exported_count_.fetch_add(1, std::memory_order_relaxed);
    }
    std::string text(kMark, sizeof(kMark));
    text.append(reinterpret_cast<const char *>(&found->second),
                sizeof(found->second));
    return {0, text};
}

std::shared_ptr<void> Sharing::open(const std::string &handle)
{
    TORCH_CHECK(handle.size() == sizeof(kMark) + sizeof(moiety_ipc_handle) &&
                    std::memcmp(handle.data(), kMark, sizeof(kMark)) == 0,
                "Moiety: this handle was made by another allocator; both "
                "processes must enable Moiety");
    std::lock_guard<std::mutex> guard(lock_);
    std::weak_ptr<void> &known = opened_[handle];
    if (std::shared_ptr<void> memory = known.lock())
        return memory;
    moiety_devptr address = 0;
    check(moiety_ipc_import(handle.data() + sizeof(kMark),
                            sizeof(moiety_ipc_handle), nullptr, &address),
          "shared memory cannot be opened");
    std::shared_ptr<void> memory(block_at(address), [](void *block) {
        ignore(moiety_ipc_close(address_of(block), MOIETY_STREAM_ANY, nullptr));
    });
    known = memory;
    return memory;
}

void Sharing::end_export(moiety_pool *pool, void *block)
{
    std::lock_guard<std::mutex> guard(lock_);
    if (exported_.erase(block)) {
        exported_count_.fetch_sub(1, std::memory_order_relaxed);
        ignore(moiety_ipc_release_exports(pool, address_of(block)));
    }
}

} // namespace moiety_torch
