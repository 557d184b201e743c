// SPDX-License-Identifier: Apache-2.0
//
// A process that uses regions, as its standard input says, line by line:
//
//     region_program SOCKET
//
//     connect | disconnect | drop NAME | list | who NAME
//     create SLOT NAME MIB HANDLE_MIB MAPS     MAPS: 1 with a context, 0 without
//     open SLOT NAME WRITES MAPS [ADDRESS [MIB]]
//     fill SLOT WORD | holds SLOT WORD | access SLOT
//     commit SLOT [LAYOUT] | info SLOT | close SLOT
//     faults PLAN | live KIND
//
// It answers each by a line: status, value, text.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "moiety/region.h"
#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

moiety_keeper *keeper;
std::map<int, moiety_region *> regions;

struct Answer {
    int status = MOIETY_OK;
    uint64_t value = 0;
    std::string text = "-";
};

moiety_region_info InfoOf(moiety_region *region)
{
    moiety_region_info info = {};
    info.struct_size = sizeof info;
    if (moiety_region_get_info(region, 0, &info) != MOIETY_OK)
        std::abort();
    return info;
}

Answer Connect(const char *path)
{
    moiety_keeper_options options = MOIETY_KEEPER_OPTIONS_INIT;
    options.path = path;
    return {moiety_keeper_connect(&options, &keeper)};
}

Answer Create(std::istream &in)
{
    int slot;
    std::string name;
    uint64_t mib;
    uint64_t handle_mib;
    bool maps;
    in >> slot >> name >> mib >> handle_mib >> maps;
    moiety_region_part part = {maps ? PrimaryContext() : nullptr, 0, mib * kMiB,
                               0, 0};
    moiety_region_options options = MOIETY_REGION_OPTIONS_INIT;
    options.name = name.c_str();
    options.parts = &part;
    options.part_count = 1;
    options.handle_bytes = handle_mib * kMiB;
    moiety_region *region = nullptr;
    int status = moiety_region_create(keeper, &options, &region);
    if (status == MOIETY_OK)
        regions[slot] = region;
    return {status};
}

Answer Open(std::istream &in)
{
    int slot;
    std::string name;
    bool writes;
    bool maps;
    uint64_t address = 0;
    uint64_t mib = 0;
    in >> slot >> name >> writes >> maps >> address >> mib;
    moiety_region_part part = {PrimaryContext(), address, mib * kMiB, 0, 0};
    moiety_region_options options = MOIETY_REGION_OPTIONS_INIT;
    options.flags = writes ? MOIETY_REGION_WRITE : 0;
    options.name = name.c_str();
    options.parts = &part;
    options.part_count = maps;
    moiety_region *region = nullptr;
    int status = moiety_region_open(keeper, &options, &region);
    if (status == MOIETY_OK)
        regions[slot] = region;
    return {status, status == MOIETY_OK ? InfoOf(region).address : 0};
}

Answer List()
{
    Answer answer;
    moiety_region_entry entry = {};
    entry.struct_size = sizeof entry;
    std::ostringstream text;
    while ((answer.status = moiety_keeper_list(keeper, entry.id, &entry)) ==
           MOIETY_OK) {
        answer.value++;
        text << entry.name << ":" << entry.state << ":" << entry.generation
             << ":" << entry.size_bytes / kMiB << ":" << entry.hold_count
             << " ";
    }
    if (answer.status == MOIETY_E_STALE)
        answer.status = MOIETY_OK;
    answer.text = text.str();
    return answer;
}

// The processes that hold a region.
Answer Who(std::istream &in)
{
    Answer answer = {MOIETY_E_STALE};
    moiety_region_entry entry = {};
    entry.struct_size = sizeof entry;
    std::string name;
    in >> name;
    while (moiety_keeper_list(keeper, entry.id, &entry) == MOIETY_OK) {
        if (name != entry.name)
            continue;
        answer = {MOIETY_OK, entry.hold_count, ""};
        for (uint32_t pid : entry.hold_pids)
            answer.text += pid ? std::to_string(pid) + " " : "";
    }
    return answer;
}

// What the device may do with the memory: a CUmemAccess_flags. The stand-in refuses
// no write to memory that is for reading.
Answer AccessOf(const moiety_region_info &info)
{
    unsigned long long flags = 0;
    CUmemLocation device = {};
    device.type = CU_MEM_LOCATION_TYPE_DEVICE;
    auto *get =
        Get<CUresult(unsigned long long *, const CUmemLocation *, CUdeviceptr)>(
            "cuMemGetAccess");
    if (get(&flags, &device, info.address) != CUDA_SUCCESS)
        std::abort();
    return {MOIETY_OK, flags};
}

Answer DoRegion(const std::string &verb, std::istream &in)
{
    int slot;
    uint32_t word = 0;
    in >> slot;
    moiety_region *region = regions.at(slot);
    if (verb == "close") {
        int status = moiety_region_close(region);
        return {status};
    }
    if (verb == "commit") {
        std::string layout;
        in >> layout;
        return {moiety_region_commit(
            region, layout.empty() ? nullptr : layout.data(), layout.size())};
    }
    moiety_region_info info = InfoOf(region);
    in >> word;
    if (verb == "fill") {
        Fill(info.address, info.size_bytes, word);
        Synchronize();
    } else if (verb == "holds")
        return {MOIETY_OK, Holds(info.address, info.size_bytes, word)};
    else if (verb == "access")
        return AccessOf(info);
    else if (verb == "info")
        return {MOIETY_OK, info.generation,
                info.layout
                    ? std::string(static_cast<const char *>(info.layout),
                                  info.layout_bytes)
                    : "-"};
    else
        std::abort();
    return {};
}

Answer DoCommand(const char *path, const std::string &line)
{
    std::istringstream in(line);
    std::string verb;
    std::string word;
    in >> verb;
    if (verb == "connect")
        return Connect(path);
    if (verb == "disconnect")
        return {moiety_keeper_disconnect(keeper)};
    if (verb == "create")
        return Create(in);
    if (verb == "open")
        return Open(in);
    if (verb == "list")
        return List();
    if (verb == "who")
        return Who(in);
    if (verb == "drop") {
        in >> word;
        return {moiety_keeper_drop(keeper, word.c_str())};
    }
    if (verb == "faults") {
        in >> word;
        SetFaults(word == "none" ? "" : word);
        return {};
    }
    if (verb == "live") {
        in >> word;
        return {MOIETY_OK, static_cast<uint64_t>(Live(word.c_str()))};
    }
    return DoRegion(verb, in);
}

} // namespace

int main(int count, char **arguments)
{
    std::string line;
    if (count != 2)
        return 2;
    UseStandin();
    while (std::getline(std::cin, line)) {
        Answer answer = DoCommand(arguments[1], line);
        if (answer.status != MOIETY_OK && answer.text == "-")
            answer.text = moiety_last_error_message();
        std::cout << answer.status << " " << answer.value << " " << answer.text
                  << std::endl;
    }
    return 0;
}
