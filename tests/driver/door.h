// SPDX-License-Identifier: Apache-2.0
//
// Runs door_program in an environment of the test's choice and reads what it
// prints. Every case is a process of its own: an open driver stays open.
#ifndef MOIETY_TESTS_DRIVER_DOOR_H_
#define MOIETY_TESTS_DRIVER_DOOR_H_

#include <string>
#include <vector>

namespace door
{

// "NAME=VALUE" each. What a developer has set of our own names is not passed
// on; everything else is.
using Environment = std::vector<std::string>;

// Output of door_program with these arguments, without stderr; if it did not
// exit by itself with 0, how it ended is added.
std::string Ask(const std::vector<std::string> &arguments,
                const Environment &environment);

// The same for a copy of door_program elsewhere.
std::string AskCopy(const std::string &program,
                    const std::vector<std::string> &arguments,
                    const Environment &environment);

// Files among the test's data, as absolute paths.
std::string Program();
std::string Standin();
// "gets5", "gets4", "symbols", "standin" or "nothing": fake_driver.c, BUILD.
std::string Fake(const std::string &kind);

// A new folder; `Place` copies a file to a path in it and makes what is missing
// on the way there.
std::string NewFolder();
void Place(const std::string &file, const std::string &path);

// A new folder in which libcuda.so.1 is a copy of `file`, for LD_LIBRARY_PATH.
std::string FolderWithLibcuda(const std::string &file);

// The same with a file that no loader takes. It stands for a machine that has
// no driver: the loader stops there and does not find the machine's own.
std::string FolderWithoutDriver();

} // namespace door

#endif
