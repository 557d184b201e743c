// SPDX-License-Identifier: Apache-2.0
#include "tests/driver/door.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

extern "C" char **environ;

namespace door
{
namespace
{

bool StartsWith(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

std::vector<char *> Pointers(const std::vector<std::string> &texts)
{
    std::vector<char *> pointers;
    for (const std::string &text : texts)
        pointers.push_back(const_cast<char *>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

std::vector<std::string> FullEnvironment(const Environment &added)
{
    std::vector<std::string> full = added;
    for (char **entry = environ; *entry; entry++)
        if (!StartsWith(*entry, "MOIETY_") && !StartsWith(*entry, "FAKE_") &&
            !StartsWith(*entry, "LD_LIBRARY_PATH="))
            full.push_back(*entry);
    return full;
}

std::string ReadAll(int descriptor)
{
    std::string text;
    char buffer[4096];
    ssize_t count;
    while ((count = read(descriptor, buffer, sizeof(buffer))) > 0)
        text.append(buffer, static_cast<size_t>(count));
    return text;
}

std::string DataPath(const std::string &path)
{
    return std::filesystem::canonical(path).string();
}

} // namespace

std::string Ask(const std::vector<std::string> &arguments,
                const Environment &environment)
{
    return AskCopy(Program(), arguments, environment);
}

std::string AskCopy(const std::string &program,
                    const std::vector<std::string> &arguments,
                    const Environment &environment)
{
    std::vector<std::string> words = arguments;
    words.insert(words.begin(), program);
    std::vector<std::string> full = FullEnvironment(environment);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return "pipe failed";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    pid_t child = 0;
    int failure = posix_spawn(&child, words[0].c_str(), &actions, nullptr,
                              Pointers(words).data(), Pointers(full).data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string output = ReadAll(ends[0]);
    close(ends[0]);
    int status = 0;
    if (failure != 0 || waitpid(child, &status, 0) != child)
        return "door_program did not start";
    if (status != 0)
        return output + "ended with wait status " + std::to_string(status);
    return output;
}

std::string Program()
{
    return DataPath("tests/driver/door_program");
}

std::string Standin()
{
    return DataPath("pool/standin/libcuda.so.1");
}

std::string Fake(const std::string &kind)
{
    return DataPath("tests/driver/libfake_" + kind + ".so");
}

std::string NewFolder()
{
    const char *root = getenv("TEST_TMPDIR");
    std::string folder = std::string(root ? root : "/tmp") + "/door-XXXXXX";
    if (!mkdtemp(&folder[0]))
        abort();
    return std::filesystem::canonical(folder).string();
}

void Place(const std::string &file, const std::string &path)
{
    namespace fs = std::filesystem;
    fs::create_directories(fs::path(path).parent_path());
    fs::copy_file(file, path);
}

std::string FolderWithLibcuda(const std::string &file)
{
    std::string folder = NewFolder();
    Place(file, folder + "/libcuda.so.1");
    return folder;
}

std::string FolderWithoutDriver()
{
    std::string folder = NewFolder();
    std::ofstream(folder + "/libcuda.so.1") << "this is no library\n";
    return folder;
}

} // namespace door
