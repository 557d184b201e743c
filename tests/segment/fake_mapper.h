/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A mapper over addresses that nobody dereferences. It knows at any time which
 * addresses are reserved, which handles there are and where each is mapped, and
 * complains of every call that a driver would refuse or that loses something.
 * The n-th call can be told to fail.
 */
#ifndef MOIETY_TESTS_SEGMENT_FAKE_MAPPER_H_
#define MOIETY_TESTS_SEGMENT_FAKE_MAPPER_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/segment_probe.h"

namespace segment_test
{

class FakeMapper
{
  public:
    enum Kind {
        kReserve,
        kRelease,
        kCreate,
        kLookFree,
        kDestroy,
        kMap,
        kGrant,
        kUnmap,
        kKinds
    };

    FakeMapper();
    ~FakeMapper();
    FakeMapper(const FakeMapper &) = delete;
    FakeMapper &operator=(const FakeMapper &) = delete;

    // For segments; valid as long as this object.
    moietyi_mapper *Table()
    {
        return table_;
    }

    // Calls so far, failed ones included; of all kinds.
    uint64_t Calls(Kind kind);
    uint64_t Calls();
    // Bytes of the calls of reserve and of create, failed ones included.
    std::vector<uint64_t> AskedAddresses();
    std::vector<uint64_t> AskedHandles();
    // The start of the one reservation, or 0.
    uint64_t Base();
    // Handles that were created and not destroyed.
    size_t HandleCount();
    uint64_t HandleBytes();
    size_t MappingCount();
    // The handle that is mapped there, or 0; and to how many places.
    uint64_t HandleAt(uint64_t address);
    unsigned PlacesOf(uint64_t handle);
    // The devices that may access what is mapped there, a bit each.
    uint64_t PeersAt(uint64_t address);
    bool IsEmpty();
    // "" or all that was done wrong, one line each.
    std::string Complaint();

    // The n-th call from now on, counted from 1, fails so, once: of a kind, or
    // of all kinds together; 0: none.
    void Fail(Kind kind, uint64_t n);
    void FailAny(uint64_t n);
    // Whether it has failed since.
    bool HasFailed();

    // Settings, changed while no call is under way.
    uint64_t next_address = UINT64_C(1) << 40; // that is reserved
    uint64_t address_bytes = UINT64_MAX; // more is refused, in one reservation
    uint64_t memory_bytes = UINT64_MAX;  // of all handles; more is exhausted
    uint64_t largest_bytes = UINT64_MAX; // of a handle; more is exhausted
    moiety_status failure = MOIETY_E_DRIVER;
    bool sticks = false; // what a map that fails has mapped stays
    // Called within create, no lock held.
    void (*in_create)(void *) = nullptr;
    void *in_create_argument = nullptr;

  private:
    struct Mapping {
        uint64_t size_bytes;
        uint64_t handle;
        uint64_t peers;
    };

    static moiety_status Reserve(void *self, uint64_t size_bytes,
                                 moiety_devptr *out);
    static moiety_status Release(void *self, moiety_devptr address,
                                 uint64_t size_bytes);
    static moiety_status Create(void *self, uint64_t size_bytes,
                                uint64_t *out_handle);
    static moiety_status LookFree(void *self, uint64_t *out_bytes);
    static moiety_status Destroy(void *self, uint64_t handle);
    static moiety_status Map(void *self, moiety_devptr address,
                             uint64_t size_bytes, uint64_t handle,
                             uint64_t peers, bool *is_mapped);
    static moiety_status Grant(void *self, moiety_devptr address,
                               uint64_t size_bytes, int32_t device,
                               bool is_granted);
    static moiety_status Unmap(void *self, moiety_devptr address,
                               uint64_t size_bytes);

    // All of them with the lock held.
    bool Fails(Kind kind);
    moiety_status Complain(const std::string &what);
    bool IsReserved(uint64_t address, uint64_t size_bytes) const;
    bool HasMapping(uint64_t address, uint64_t size_bytes) const;
    unsigned CountPlaces(uint64_t handle) const;
    uint64_t SumHandles() const;

    moietyi_mapper *table_;
    std::mutex lock_;
    std::map<uint64_t, uint64_t> reserved_; // bytes by address
    std::map<uint64_t, uint64_t> handles_;  // bytes by handle
    std::map<uint64_t, Mapping> mapped_;    // by address
    uint64_t next_handle_ = 1;
    uint64_t calls_[kKinds] = {};
    uint64_t failing_[kKinds] = {};
    uint64_t failing_any_ = 0;
    bool has_failed_ = false;
    std::vector<uint64_t> asked_addresses_;
    std::vector<uint64_t> asked_handles_;
    std::string complaint_;
};

} // namespace segment_test

#endif
