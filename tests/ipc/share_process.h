/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The processes of //tests/ipc:share, which runs on any driver: the program
 * starts itself again as an importer or an exporter. What is asked of one, and
 * the little that they need of the driver.
 */
#ifndef MOIETY_TESTS_IPC_SHARE_PROCESS_H_
#define MOIETY_TESTS_IPC_SHARE_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "moiety/ipc.h"
#include "moiety/moiety.h"

namespace share_test
{

// A block as it travels.
struct Block {
    moiety_ipc_handle handle;
    uint64_t size_bytes;
    // Its owner's address; nobody else's.
    moiety_devptr address;
};

enum class Task : uint32_t {
    kVisit,  // import each, see the word before `writer`, write its own, close
    kImport, // import the first and keep it
    kTrim,   // close all that is open
    kShare   // make, write and export one block
};

struct Answer {
    int32_t status; // the first that was not OK
    uint32_t open_count;
    uint64_t wrong_count; // blocks with the wrong contents
    Block block;          // of kShare
    char message[256];
};

// What writer number `writer` puts into block number `index`.
uint32_t WordOf(size_t index, uint32_t writer);

// Makes the primary context of device 0 current. Why not; empty if it is.
std::string OpenDevice();
// As work of a stream of this process's own; Holds() waits for it.
moiety_stream OwnStream();
void Write(moiety_devptr address, uint64_t size_bytes, uint32_t word);
bool Holds(moiety_devptr address, uint64_t size_bytes, uint32_t word);

moiety_pool_options Exportable(uint64_t segment_bytes);

// Another process of the program.
class Process
{
  public:
    Process();
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    Answer Ask(Task task, const std::vector<Block> &blocks = {},
               uint32_t writer = 0);
    void Kill();

  private:
    pid_t pid_ = -1;
    int socket_ = -1;
};

// Does what the socket at descriptor 3 says until it is closed; the exit status.
int Serve();

} // namespace share_test

#endif
