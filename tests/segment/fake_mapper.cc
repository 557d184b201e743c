// SPDX-License-Identifier: Apache-2.0
#include "tests/segment/fake_mapper.h"

#include <cstdio>
#include <cstdlib>

namespace segment_test
{
namespace
{

constexpr uint64_t kAlignment = UINT64_C(64) << 20;

using Guard = std::lock_guard<std::mutex>;

FakeMapper *Self(void *self)
{
    return static_cast<FakeMapper *>(self);
}

std::string Named(uint64_t address, uint64_t size_bytes)
{
    char text[64];
    std::snprintf(text, sizeof(text), "0x%llx, 0x%llx bytes",
                  static_cast<unsigned long long>(address),
                  static_cast<unsigned long long>(size_bytes));
    return text;
}

} // namespace

FakeMapper::FakeMapper()
{
    segment_probe_mapper functions = {};
    functions.context = this;
    functions.reserve = Reserve;
    functions.release = Release;
    functions.create = Create;
    functions.look_free = LookFree;
    functions.destroy = Destroy;
    functions.map = Map;
    functions.grant = Grant;
    functions.unmap = Unmap;
    table_ = segment_probe_mapper_create(&functions);
    if (!table_)
        std::abort();
}

FakeMapper::~FakeMapper()
{
    segment_probe_mapper_destroy(table_);
}

uint64_t FakeMapper::Calls(Kind kind)
{
    Guard guard(lock_);
    return calls_[kind];
}

uint64_t FakeMapper::Calls()
{
    Guard guard(lock_);
    uint64_t sum = 0;
    for (uint64_t calls : calls_)
        sum += calls;
    return sum;
}

std::vector<uint64_t> FakeMapper::AskedAddresses()
{
    Guard guard(lock_);
    return asked_addresses_;
}

std::vector<uint64_t> FakeMapper::AskedHandles()
{
    Guard guard(lock_);
    return asked_handles_;
}

uint64_t FakeMapper::Base()
{
    Guard guard(lock_);
    return reserved_.empty() ? 0 : reserved_.begin()->first;
}

size_t FakeMapper::HandleCount()
{
    Guard guard(lock_);
    return handles_.size();
}

uint64_t FakeMapper::SumHandles() const
{
    uint64_t sum = 0;
    for (const auto &handle : handles_)
        sum += handle.second;
    return sum;
}

uint64_t FakeMapper::HandleBytes()
{
    Guard guard(lock_);
    return SumHandles();
}

size_t FakeMapper::MappingCount()
{
    Guard guard(lock_);
    return mapped_.size();
}

uint64_t FakeMapper::HandleAt(uint64_t address)
{
    Guard guard(lock_);
    auto behind = mapped_.upper_bound(address);
    if (behind == mapped_.begin())
        return 0;
    const auto &found = *--behind;
    return address < found.first + found.second.size_bytes ? found.second.handle
                                                           : 0;
}

uint64_t FakeMapper::PeersAt(uint64_t address)
{
    Guard guard(lock_);
    auto found = mapped_.find(address);
    return found == mapped_.end() ? 0 : found->second.peers;
}

unsigned FakeMapper::CountPlaces(uint64_t handle) const
{
    unsigned places = 0;
    for (const auto &mapping : mapped_)
        places += mapping.second.handle == handle;
    return places;
}

unsigned FakeMapper::PlacesOf(uint64_t handle)
{
    Guard guard(lock_);
    return CountPlaces(handle);
}

bool FakeMapper::IsEmpty()
{
    Guard guard(lock_);
    return reserved_.empty() && handles_.empty() && mapped_.empty();
}

std::string FakeMapper::Complaint()
{
    Guard guard(lock_);
    return complaint_;
}

void FakeMapper::Fail(Kind kind, uint64_t n)
{
    Guard guard(lock_);
    failing_[kind] = n;
    has_failed_ = false;
}

void FakeMapper::FailAny(uint64_t n)
{
    Guard guard(lock_);
    failing_any_ = n;
    has_failed_ = false;
}

bool FakeMapper::HasFailed()
{
    Guard guard(lock_);
    return has_failed_;
}

bool FakeMapper::Fails(Kind kind)
{
    calls_[kind]++;
    bool is_due = failing_[kind] && --failing_[kind] == 0;
    is_due |= failing_any_ && --failing_any_ == 0;
    has_failed_ |= is_due;
    return is_due;
}

moiety_status FakeMapper::Complain(const std::string &what)
{
    complaint_ += what + "\n";
    return MOIETY_E_INVALID;
}

bool FakeMapper::IsReserved(uint64_t address, uint64_t size_bytes) const
{
    for (const auto &range : reserved_)
        if (address >= range.first &&
            address + size_bytes <= range.first + range.second)
            return true;
    return false;
}

bool FakeMapper::HasMapping(uint64_t address, uint64_t size_bytes) const
{
    for (const auto &mapping : mapped_)
        if (mapping.first < address + size_bytes &&
            address < mapping.first + mapping.second.size_bytes)
            return true;
    return false;
}

moiety_status FakeMapper::Reserve(void *self, uint64_t size_bytes,
                                  moiety_devptr *out)
{
    FakeMapper *own = Self(self);
    Guard guard(own->lock_);
    own->asked_addresses_.push_back(size_bytes);
    if (own->Fails(kReserve))
        return own->failure;
    if (!size_bytes || size_bytes % PROBE_PAGE_BYTES)
        return own->Complain("reserved " + Named(0, size_bytes));
    if (size_bytes > own->address_bytes)
        return MOIETY_E_NO_DEVICE_MEMORY;
    *out = own->next_address;
    own->reserved_[*out] = size_bytes;
    own->next_address += (size_bytes / kAlignment + 2) * kAlignment;
    return MOIETY_OK;
}

moiety_status FakeMapper::Release(void *self, moiety_devptr address,
                                  uint64_t size_bytes)
{
    FakeMapper *own = Self(self);
    Guard guard(own->lock_);
    if (own->Fails(kRelease))
        return own->failure;
    auto found = own->reserved_.find(address);
    if (found == own->reserved_.end() || found->second != size_bytes)
        return own->Complain("released addresses that are not reserved: " +
                             Named(address, size_bytes));
    if (own->HasMapping(address, size_bytes))
        return own->Complain("released addresses with a mapping: " +
                             Named(address, size_bytes));
    own->reserved_.erase(found);
    return MOIETY_OK;
}

moiety_status FakeMapper::Create(void *self, uint64_t size_bytes,
                                 uint64_t *out_handle)
{
    FakeMapper *own = Self(self);
    if (own->in_create)
        own->in_create(own->in_create_argument);
    Guard guard(own->lock_);
    own->asked_handles_.push_back(size_bytes);
    if (own->Fails(kCreate))
        return own->failure;
    if (!size_bytes || size_bytes % PROBE_PAGE_BYTES)
        return own->Complain("created a handle of " + Named(0, size_bytes));
    if (size_bytes > own->largest_bytes ||
        size_bytes > own->memory_bytes - own->SumHandles())
        return MOIETY_E_NO_DEVICE_MEMORY;
    *out_handle = own->next_handle_++;
    own->handles_[*out_handle] = size_bytes;
    return MOIETY_OK;
}

moiety_status FakeMapper::LookFree(void *self, uint64_t *out_bytes)
{
    FakeMapper *own = Self(self);
    Guard guard(own->lock_);
    if (own->Fails(kLookFree))
        return own->failure;
    *out_bytes = own->memory_bytes - own->SumHandles();
    return MOIETY_OK;
}

moiety_status FakeMapper::Destroy(void *self, uint64_t handle)
{
    FakeMapper *own = Self(self);
    Guard guard(own->lock_);
    if (own->Fails(kDestroy))
        return own->failure;
    if (!own->handles_.count(handle))
        return own->Complain("destroyed a handle that is not there: " +
                             std::to_string(handle));
    if (own->CountPlaces(handle))
        return own->Complain("destroyed a handle that is mapped: " +
                             std::to_string(handle));
    own->handles_.erase(handle);
    return MOIETY_OK;
}

moiety_status FakeMapper::Map(void *self, moiety_devptr address,
                              uint64_t size_bytes, uint64_t handle,
                              uint64_t peers, bool *is_mapped)
{
    FakeMapper *own = Self(self);
    Guard guard(own->lock_);
    if (own->Fails(kMap)) {
        own->mapped_.erase(address);
        *is_mapped = own->sticks;
        if (own->sticks)
            own->mapped_[address] = {size_bytes, handle, 0};
        return own->failure;
    }
    auto found = own->handles_.find(handle);
    if (found == own->handles_.end() || found->second != size_bytes)
        return own->Complain("mapped what is no whole handle: " +
                             Named(address, size_bytes));
    if (address % PROBE_PAGE_BYTES || !own->IsReserved(address, size_bytes))
        return own->Complain("mapped where nothing is reserved: " +
                             Named(address, size_bytes));
    auto there = own->mapped_.find(address);
    bool is_there = there != own->mapped_.end() &&
                    there->second.handle == handle &&
                    there->second.size_bytes == size_bytes;
    if (*is_mapped != own->HasMapping(address, size_bytes) ||
        *is_mapped != is_there)
        return own->Complain("mapped over a mapping: " +
                             Named(address, size_bytes));
    own->mapped_[address] = {size_bytes, handle, peers};
    *is_mapped = true;
    return MOIETY_OK;
}

moiety_status FakeMapper::Grant(void *self, moiety_devptr address,
                                uint64_t size_bytes, int32_t device,
                                bool is_granted)
{
    FakeMapper *own = Self(self);
    Guard guard(own->lock_);
    if (own->Fails(kGrant))
        return own->failure;
    auto found = own->mapped_.find(address);
    if (found == own->mapped_.end() || found->second.size_bytes != size_bytes)
        return own->Complain("granted what is no whole mapping: " +
                             Named(address, size_bytes));
    uint64_t bit = UINT64_C(1) << device;
    found->second.peers =
        is_granted ? found->second.peers | bit : found->second.peers & ~bit;
    return MOIETY_OK;
}

moiety_status FakeMapper::Unmap(void *self, moiety_devptr address,
                                uint64_t size_bytes)
{
    FakeMapper *own = Self(self);
    Guard guard(own->lock_);
    if (own->Fails(kUnmap))
        return own->failure;
    auto found = own->mapped_.find(address);
    if (found == own->mapped_.end() || found->second.size_bytes != size_bytes)
        return own->Complain("unmapped what is no whole mapping: " +
                             Named(address, size_bytes));
    own->mapped_.erase(found);
    return MOIETY_OK;
}

} // namespace segment_test
