/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Facts of the GPU driver: what it is, and whether memory can be shared
 * between processes here (containers often refuse it).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/host_facts/driver_door.h"
#include "tests/host_facts/facts.h"

#define BLOCK_BYTES ((size_t)2 << 20)
/* Exit status of an importer that never got as far as the driver; what the
 * driver said goes to standard output, being wider than an exit status. */
#define IMPORTER_BROKEN 1

extern char **environ;

static void add_result(struct facts *facts, const struct driver *driver,
                       const char *key, CUresult code)
{
    if (code == CUDA_SUCCESS)
        facts_add(facts, key, "works");
    else
        facts_add(facts, key, "refused here (%s)",
                  driver_name_of(driver, code));
}

/* Starts this program again as importer, with two pipes; -1 when it cannot. */
static pid_t spawn_importer(int input, int output)
{
    char program[] = "host_facts", role[] = "--importer";
    char *arguments[] = {program, role, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments,
                    environ) != 0)
        child = -1;
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* Gives the handle to another process; what opening it there returned. False
 * when the other process did not answer. */
static bool open_elsewhere(const CUipcMemHandle *handle, CUresult *out)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0)
        return false;
    if (pipe2(from, O_CLOEXEC) != 0) {
        (void)close(to[0]);
        (void)close(to[1]);
        return false;
    }
    pid_t child = spawn_importer(to[0], from[1]);
    (void)close(to[0]);
    (void)close(from[1]);
    bool has_answer =
        child > 0 &&
        write(to[1], handle, sizeof *handle) == (ssize_t)sizeof *handle &&
        read(from[0], out, sizeof *out) == (ssize_t)sizeof *out;
    (void)close(to[1]);
    (void)close(from[0]);
    if (child > 0)
        (void)waitpid(child, NULL, 0);
    return has_answer;
}

int facts_play_importer(void)
{
    struct driver driver;
    CUipcMemHandle handle;
    CUdeviceptr address = 0;
    if (driver_open(&driver) != NULL ||
        read(STDIN_FILENO, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return IMPORTER_BROKEN;
    CUresult code = driver_begin(&driver);
    if (code == CUDA_SUCCESS)
        code = driver.ipc_open(&address, handle,
                               CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (code == CUDA_SUCCESS)
        code = driver.ipc_close(address);
    return write(STDOUT_FILENO, &code, sizeof code) == (ssize_t)sizeof code
               ? 0
               : IMPORTER_BROKEN;
}

static void add_legacy_ipc(struct facts *facts, const struct driver *driver)
{
    const char *key = "cuda_legacy_ipc";
    CUipcMemHandle handle;
    CUdeviceptr address = 0;
    CUresult code = driver->mem_alloc(&address, BLOCK_BYTES);
    if (code != CUDA_SUCCESS) {
        facts_add_unknown(facts, key, driver_name_of(driver, code));
        return;
    }
    code = driver->ipc_get(&handle, address);
    if (code != CUDA_SUCCESS || open_elsewhere(&handle, &code))
        add_result(facts, driver, key, code);
    else
        facts_add_unknown(facts, key, "the other process did not answer");
    (void)driver->mem_free(address);
}

static void add_fd_export(struct facts *facts, const struct driver *driver)
{
    CUmemAllocationProp property;
    CUmemGenericAllocationHandle memory = 0;
    int descriptor = -1;
    memset(&property, 0, sizeof property);
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUresult code = driver->mem_create(&memory, BLOCK_BYTES, &property, 0);
    if (code == CUDA_SUCCESS) {
        code = driver->mem_export(&descriptor, memory,
                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        (void)driver->mem_release(memory);
    }
    if (descriptor >= 0)
        (void)close(descriptor);
    add_result(facts, driver, "cuda_vmm_fd_export", code);
}

static void add_identity(struct facts *facts, const struct driver *driver)
{
    int version = 0, count = 0;
    char name[128] = "";
    (void)driver->driver_get_version(&version);
    facts_add(facts, "driver", "CUDA %d.%d%s", version / 1000,
              version % 1000 / 10, driver->is_standin ? " (stand-in)" : "");
    if (driver->device_get_count(&count) == CUDA_SUCCESS)
        facts_add(facts, "devices", "%d", count);
    if (driver->device_get_name(name, (int)sizeof name, 0) == CUDA_SUCCESS)
        facts_add(facts, "device", "%s", name);
}

void facts_of_driver(struct facts *facts)
{
    struct driver driver;
    const char *why = driver_open(&driver);
    if (why != NULL) {
        facts_add(facts, "driver", "none (%s)", why);
        return;
    }
    CUresult code = driver_begin(&driver);
    if (code != CUDA_SUCCESS) {
        facts_add(facts, "driver", "unusable (%s)",
                  driver_name_of(&driver, code));
        return;
    }
    add_identity(facts, &driver);
    add_legacy_ipc(facts, &driver);
    add_fd_export(facts, &driver);
}
