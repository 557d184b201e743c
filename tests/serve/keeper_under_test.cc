// SPDX-License-Identifier: Apache-2.0
#include "tests/serve/keeper_under_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace serve_test
{
namespace
{

void EndUnless(bool condition, const char *what)
{
    if (condition)
        return;
    std::perror(what);
    std::abort();
}

// The program's system calls fail as those of another kernel.
bool Lack(const Limits &limits)
{
    constexpr unsigned kPeerPidfd = 77;
    constexpr auto kAt = [](size_t offset) {
        return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                    static_cast<unsigned>(offset));
    };
    constexpr auto kEnd = [](unsigned what) {
        return sock_filter BPF_STMT(BPF_RET | BPF_K, what);
    };
    constexpr auto kUnless = [](unsigned value, unsigned char skip) {
        return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
    };
    unsigned open =
        limits.lacks_pidfd_open ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW;
    sock_filter steps[] = {kAt(offsetof(seccomp_data, nr)),
                           kUnless(SYS_pidfd_open, 1),
                           kEnd(open),
                           kUnless(SYS_getsockopt, 3),
                           kAt(offsetof(seccomp_data, args[2])),
                           kUnless(kPeerPidfd, 1),
                           kEnd(SECCOMP_RET_ERRNO | ENOPROTOOPT),
                           kEnd(SECCOMP_RET_ALLOW)};
    sock_fprog program = {sizeof steps / sizeof steps[0], steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

[[noreturn]] void Become(const std::vector<std::string> &arguments,
                         const Limits &limits, int in, int out)
{
    std::vector<char *> pointers;
    for (const std::string &argument : arguments)
        pointers.push_back(const_cast<char *>(argument.c_str()));
    pointers.push_back(nullptr);
    dup2(in, 0);
    dup2(out, 1);
    // Its own end of a pipe whose other end it has closed by exec.
    int broken[2];
    if (limits.has_broken_stderr &&
        (pipe2(broken, O_CLOEXEC) != 0 || dup2(broken[1], 2) != 2 ||
         signal(SIGPIPE, SIG_DFL) == SIG_ERR))
        _exit(126);
    if (limits.descriptors) {
        struct rlimit limit = {limits.descriptors, limits.descriptors};
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limits.lacks_peer_pidfd && !Lack(limits))
        _exit(126);
    execv(pointers[0], pointers.data());
    _exit(127);
}

std::vector<std::string> KeeperArguments(const std::string &path,
                                         const std::vector<std::string> &more)
{
    std::vector<std::string> all = {"serve/keeper/moiety-serve", "--socket",
                                    path, "--accept-memfd"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

// Whether the keeper answers, so that it has read the vault's records.
bool IsHeard(const std::string &path)
{
    int socket = RawConnect(path);
    char one = 0;
    if (socket < 0)
        return false;
    // A packet that is no frame is refused.
    bool is_answered = send(socket, &one, 1, MSG_NOSIGNAL) == 1 &&
                       recv(socket, &one, 1, 0) == 1;
    close(socket);
    return is_answered;
}

} // namespace

Process::Process(const std::vector<std::string> &arguments,
                 const Limits &limits)
{
    int in[2];
    int out[2];
    signal(SIGPIPE, SIG_IGN);
    EndUnless(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "pipe");
    pid_ = fork();
    EndUnless(pid_ >= 0, "fork");
    if (pid_ == 0)
        Become(arguments, limits, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
}

Process::~Process()
{
    if (pid_ > 0) {
        Signal(SIGKILL);
        Wait();
    }
    close(in_);
    close(out_);
}

void Process::Signal(int number)
{
    SignalOne(pid_, number);
}

int Process::Wait()
{
    int status = 0;
    EndUnless(waitpid(pid_, &status, 0) == pid_, "waitpid");
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Process::Write(const std::string &line)
{
    std::string whole = line + "\n";
    return write(in_, whole.data(), whole.size()) ==
           static_cast<ssize_t>(whole.size());
}

std::string Process::Read()
{
    std::string line;
    char one;
    while (read(out_, &one, 1) == 1 && one != '\n')
        line += one;
    return line;
}

Folder::Folder()
{
    char name[] = "/tmp/moiety-serve-XXXXXX";
    EndUnless(mkdtemp(name) != nullptr, "mkdtemp");
    path_ = name;
}

Folder::~Folder()
{
    DIR *folder = opendir(path_.c_str());
    while (dirent *entry = folder ? readdir(folder) : nullptr)
        unlink(Path(entry->d_name).c_str());
    if (folder)
        closedir(folder);
    rmdir(path_.c_str());
}

std::string Folder::Path(const std::string &name) const
{
    return path_ + "/" + name;
}

Keeper::Keeper(const std::vector<std::string> &more, const Limits &limits)
    : path_(folder_.Path("keeper")),
      process_(KeeperArguments(path_, more), limits)
{
    EXPECT_TRUE(Eventually([this] { return Connects(path_); }));
}

Keeper::~Keeper()
{
    if (process_.pid() > 0)
        Stop();
}

int Keeper::Stop()
{
    process_.Signal(SIGTERM);
    return process_.Wait();
}

int Keeper::Wait()
{
    return process_.Wait();
}

void Keeper::Signal(int number)
{
    process_.Signal(number);
}

pid_t ChildOf(pid_t pid)
{
    std::string name = std::to_string(pid);
    std::ifstream file("/proc/" + name + "/task/" + name + "/children");
    pid_t child = -1;
    file >> child;
    return file ? child : -1;
}

size_t OpenDescriptors(pid_t pid)
{
    size_t count = 0;
    DIR *folder = opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
    while (dirent *entry = folder ? readdir(folder) : nullptr)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

uint64_t ResidentBytes(pid_t pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
    uint64_t all = 0;
    uint64_t resident = 0;
    file >> all >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

unsigned Below(std::mt19937 &random, unsigned end)
{
    return static_cast<unsigned>(random() % end);
}

unsigned NumberOf(const char *variable, unsigned otherwise)
{
    const char *value = std::getenv(variable);
    return value ? static_cast<unsigned>(std::strtoul(value, nullptr, 10))
                 : otherwise;
}

void SignalOne(pid_t pid, int number)
{
    errno = ESRCH;
    EndUnless(pid > 1 && kill(pid, number) == 0, "a signal to one process");
}

// The vault listens before it forks.
pid_t Keeper::server() const
{
    pid_t child = -1;
    EndUnless(Eventually([&] { return (child = ChildOf(vault_pid())) > 0; }),
              "the process for clients");
    return child;
}

void Keeper::KillServer()
{
    pid_t before = server();
    SignalOne(before, SIGKILL);
    EXPECT_TRUE(Eventually([&] {
        pid_t now = ChildOf(vault_pid());
        return now > 0 && now != before;
    }));
    EXPECT_TRUE(Eventually([this] { return IsHeard(path_); }));
}

Worker::Worker(const std::string &path)
    : process_({"tests/serve/region_program", path})
{
}

Reply Worker::Do(const std::string &command)
{
    Reply reply;
    if (!process_.Write(command))
        return reply;
    std::istringstream line(process_.Read());
    line >> reply.status >> reply.value;
    std::getline(line >> std::ws, reply.text);
    while (!reply.text.empty() && reply.text.back() == ' ')
        reply.text.pop_back();
    return reply;
}

Reply Worker::Must(const std::string &command)
{
    Reply reply = Do(command);
    EXPECT_EQ(MOIETY_OK, reply.status) << command << ": " << reply.text;
    return reply;
}

void Worker::Kill()
{
    process_.Signal(SIGKILL);
    process_.Wait();
}

bool Eventually(const std::function<bool()> &is_so)
{
    for (int i = 0; i < 6000; i++) {
        if (is_so())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

int RawConnect(const std::string &path)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, reinterpret_cast<sockaddr *>(&address),
                             sizeof address) != 0) {
        close(made);
        made = -1;
    }
    return made;
}

bool Connects(const std::string &path)
{
    int socket = RawConnect(path);
    if (socket >= 0)
        close(socket);
    return socket >= 0;
}

} // namespace serve_test
