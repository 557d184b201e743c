// SPDX-License-Identifier: Apache-2.0
//
// Which driver MOIETY_DRIVER gets, and what is said when it gets none. A fake
// driver that was opened shows as MOIETY_E_UNSUPPORTED at cuDeviceGetCount: it
// passed the door and refused the first thing that it was asked.
#include <gtest/gtest.h>

#include "tests/driver/door.h"

namespace
{

using namespace door;
using testing::IsNotSubstring;
using testing::IsSubstring;

#define HAS(text, output) EXPECT_PRED_FORMAT2(IsSubstring, text, output)
#define LACKS(text, output) EXPECT_PRED_FORMAT2(IsNotSubstring, text, output)

const char kPassedTheDoor[] = "native=cuDeviceGetCount 801";

std::string LibraryPath(const std::string &folder)
{
    return "LD_LIBRARY_PATH=" + folder;
}

TEST(DriverAuto, WithoutADriverNamesTheWayOut)
{
    std::string output =
        Ask({"probe"}, {LibraryPath(door::FolderWithoutDriver())});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("MOIETY_DRIVER=auto: no CUDA driver", output);
    HAS("MOIETY_DRIVER=standin needs no GPU", output);
}

TEST(DriverAuto, IsTheDefaultAlsoWhenEmpty)
{
    std::string folder = LibraryPath(door::FolderWithoutDriver());
    std::string unset = Ask({"probe"}, {folder});
    EXPECT_EQ(unset, Ask({"probe"}, {folder, "MOIETY_DRIVER=auto"}));
    EXPECT_EQ(unset, Ask({"probe"}, {folder, "MOIETY_DRIVER="}));
}

TEST(DriverAuto, TakesWhatTheLoaderFinds)
{
    std::string folder = door::FolderWithLibcuda(Fake("gets5"));
    HAS(kPassedTheDoor, Ask({"probe"}, {LibraryPath(folder)}));
}

TEST(DriverAuto, TakesAStandinThatWasPutOnTheLibraryPath)
{
    std::string folder = door::FolderWithLibcuda(door::Standin());
    std::string output = Ask({"probe"}, {LibraryPath(folder)});
    HAS("status=MOIETY_OK\nis_standin=1\n", output);
    HAS("path=" + folder + "/libcuda.so.1\n", output);
}

TEST(DriverAuto, NeverTakesAStandinByItself)
{
    std::string folder = door::NewFolder();
    door::Place(door::Program(), folder + "/program");
    door::Place(door::Standin(), folder + "/libmoiety_standin.so");
    std::string output =
        door::AskCopy(folder + "/program", {"probe"},
                      {LibraryPath(door::FolderWithoutDriver())});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
}

TEST(DriverCuda, TakesARealDriver)
{
    std::string folder = door::FolderWithLibcuda(Fake("gets5"));
    HAS(kPassedTheDoor,
        Ask({"probe"}, {LibraryPath(folder), "MOIETY_DRIVER=cuda"}));
}

TEST(DriverCuda, RefusesAStandinAndClosesIt)
{
    std::string folder = door::FolderWithLibcuda(Fake("standin"));
    std::string output = Ask({"left-open", "libcuda.so.1"},
                             {LibraryPath(folder), "MOIETY_DRIVER=cuda"});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("MOIETY_DRIVER=cuda: the driver here is the stand-in (" + folder,
        output);
    HAS("loaded=0\n", output);
}

TEST(DriverCuda, WithoutADriverSaysWhatTheLoaderSays)
{
    std::string output =
        Ask({"probe"},
            {LibraryPath(door::FolderWithoutDriver()), "MOIETY_DRIVER=cuda"});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("MOIETY_DRIVER=cuda: ", output);
}

// Where the stand-in may lie, relative to the program.
class StandinPlace : public testing::TestWithParam<const char *>
{
};

TEST_P(StandinPlace, IsFound)
{
    std::string folder = door::NewFolder();
    door::Place(door::Program(), folder + "/bin/program");
    door::Place(door::Standin(), folder + GetParam());
    std::string output = door::AskCopy(folder + "/bin/program", {"probe"},
                                       {"MOIETY_DRIVER=standin"});
    HAS("status=MOIETY_OK\nis_standin=1\n", output);
    HAS("path=" + folder, output);
}

INSTANTIATE_TEST_SUITE_P(DriverStandin, StandinPlace,
                         testing::Values("/bin/libmoiety_standin.so",
                                         "/bin/moiety/libmoiety_standin.so",
                                         "/lib/moiety/libmoiety_standin.so",
                                         "/bin/standin/libcuda.so.1",
                                         "/standin/libcuda.so.1"));

TEST(DriverStandin, IsFoundByTheLoadersOwnSearch)
{
    std::string folder = door::NewFolder();
    door::Place(door::Standin(), folder + "/libmoiety_standin.so");
    std::string output =
        Ask({"probe"}, {LibraryPath(folder), "MOIETY_DRIVER=standin"});
    HAS("status=MOIETY_OK\nis_standin=1\n", output);
}

TEST(DriverStandin, ThatIsNowhereIsNamed)
{
    std::string output = Ask({"probe"}, {"MOIETY_DRIVER=standin"});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("MOIETY_DRIVER=standin: libmoiety_standin.so", output);
    HAS("MOIETY_DRIVER=PREFIX/lib/libmoiety_standin.so", output);
}

TEST(DriverStandin, ThatIsSomethingElseIsRefusedAndClosed)
{
    std::string folder = door::NewFolder();
    std::string file = folder + "/libmoiety_standin.so";
    door::Place(Fake("gets5"), file);
    std::string output = Ask({"left-open", file},
                             {LibraryPath(folder), "MOIETY_DRIVER=standin"});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("MOIETY_DRIVER=standin: this file is something else (" + file, output);
    HAS("loaded=0\n", output);
}

TEST(DriverStandin, ReusesTheOneThatIsLoaded)
{
    std::string output =
        Ask({"after", door::Standin()}, {"MOIETY_DRIVER=standin"});
    HAS("status=MOIETY_OK\nis_standin=1\n", output);
    HAS("path=" + door::Standin() + "\n", output);
}

TEST(DriverStandin, RefusesBesideARealDriver)
{
    std::string folder = door::FolderWithLibcuda(Fake("gets5"));
    std::string output = Ask({"after", "libcuda.so.1"},
                             {LibraryPath(folder), "MOIETY_DRIVER=standin"});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("this process has loaded a real driver (" + folder, output);
}

TEST(DriverPath, IsTaken)
{
    std::string output = Ask({"probe"}, {"MOIETY_DRIVER=" + door::Standin()});
    HAS("status=MOIETY_OK\nis_standin=1\n", output);
    HAS("path=" + door::Standin() + "\n", output);
}

TEST(DriverPath, ThatDoesNotExistIsNamed)
{
    std::string output = Ask({"probe"}, {"MOIETY_DRIVER=/no/such/file.so"});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("MOIETY_DRIVER=/no/such/file.so: ", output);
}

TEST(DriverPath, ToALibraryThatIsNoDriverIsRefusedAndClosed)
{
    std::string output = Ask({"left-open", Fake("nothing")},
                             {"MOIETY_DRIVER=" + Fake("nothing")});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS(Fake("nothing") + " is not a CUDA driver", output);
    HAS("loaded=0\n", output);
}

TEST(DriverPath, ToADriverThatIsTooOldNamesWhatItLacks)
{
    std::string output =
        Ask({"left-open", Fake("gets5")},
            {"MOIETY_DRIVER=" + Fake("gets5"), "FAKE_VERSION=11020"});
    HAS("status=MOIETY_E_UNSUPPORTED\n", output);
    HAS(Fake("gets5") + ", CUDA 11.2) lacks cuDeviceGetUuid; a driver "
                        "of CUDA 11.4 or newer is needed",
        output);
    HAS("loaded=0\n", output);
}

TEST(DriverPath, ToAStandinThatImitatesAnOldDriverIsTooOldAsWell)
{
    std::string output =
        Ask({"probe"}, {"MOIETY_DRIVER=" + door::Standin(),
                        "MOIETY_STANDIN_DRIVER_VERSION=11020"});
    HAS("status=MOIETY_E_UNSUPPORTED\n", output);
    HAS("CUDA 11.2) lacks cuDeviceGetUuid", output);
}

TEST(DriverChoice, ThatIsUnknownListsTheChoices)
{
    std::string output = Ask({"probe"}, {"MOIETY_DRIVER=Stand-in"});
    HAS("status=MOIETY_E_INVALID\n", output);
    HAS("MOIETY_DRIVER=Stand-in: accepted values are auto, cuda, standin or a "
        "path",
        output);
}

TEST(RequireGpu, RefusesAStandinAndClosesIt)
{
    std::string output =
        Ask({"left-open", door::Standin()},
            {"MOIETY_DRIVER=" + door::Standin(), "MOIETY_REQUIRE_GPU=1"});
    HAS("status=MOIETY_E_NO_DEVICE\n", output);
    HAS("MOIETY_REQUIRE_GPU=1 and the driver is the stand-in", output);
    HAS("loaded=0\n", output);
}

TEST(RequireGpu, LetsARealDriverPass)
{
    HAS(kPassedTheDoor, Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("gets5"),
                                        "MOIETY_REQUIRE_GPU=1"}));
}

TEST(RequireGpu, ZeroIsNo)
{
    HAS("status=MOIETY_OK\n",
        Ask({"probe"},
            {"MOIETY_DRIVER=" + door::Standin(), "MOIETY_REQUIRE_GPU=0"}));
}

TEST(RequireGpu, OtherValuesAreRefusedByName)
{
    std::string output = Ask({"probe"}, {"MOIETY_DRIVER=" + door::Standin(),
                                         "MOIETY_REQUIRE_GPU=yes"});
    HAS("status=MOIETY_E_INVALID\n", output);
    HAS("MOIETY_REQUIRE_GPU=yes: accepted values are 0 and 1", output);
}

TEST(DriverInit, WithoutADeviceIsNoDevice)
{
    std::string output =
        Ask({"left-open", Fake("gets5")},
            {"MOIETY_DRIVER=" + Fake("gets5"), "FAKE_INIT=100"});
    HAS("status=MOIETY_E_NO_DEVICE\n", output);
    HAS("message=cuInit: CUDA_ERROR_NO_DEVICE (100); the driver is " +
            Fake("gets5"),
        output);
    HAS("native=cuInit 100 CUDA_ERROR_NO_DEVICE\n", output);
    HAS("loaded=0\n", output);
}

TEST(DriverInit, OfTheToolkitsLinkTimeCopyIsNoDriver)
{
    std::string output =
        Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("gets5"), "FAKE_INIT=34"});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("native=cuInit 34 CUDA_ERROR_STUB_LIBRARY\n", output);
}

TEST(DriverInit, ThatFailsOtherwiseKeepsTheCode)
{
    std::string output =
        Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("gets5"), "FAKE_INIT=31338"});
    HAS("status=MOIETY_E_DRIVER\n", output);
    HAS("native=cuInit 31338 CUDA_ERROR_UNKNOWN\n", output);
}

TEST(DriverEntries, ComeFromTheFormWithFourParameters)
{
    HAS(kPassedTheDoor, Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("gets4"),
                                        "FAKE_VERSION=11040"}));
}

TEST(DriverEntries, ComeFromTheSymbolTableWithoutGetProcAddress)
{
    HAS(kPassedTheDoor, Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("symbols")}));
}

TEST(DriverEntries, ComeFromTheSymbolTableWhereTheDriverForgotOne)
{
    HAS(kPassedTheDoor, Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("gets5"),
                                        "FAKE_HIDE=cuMemAlloc"}));
}

TEST(DriverEntries, NewerThanTheDriverAreNotTaken)
{
    std::string output = Ask(
        {"probe"}, {"MOIETY_DRIVER=" + Fake("symbols"), "FAKE_VERSION=11020"});
    HAS("CUDA 11.2) lacks cuDeviceGetUuid;", output);
}

TEST(DriverEntries, AreNotTakenWithoutAVersion)
{
    std::string output = Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("gets4"),
                                         "FAKE_HIDE=cuDriverGetVersion"});
    HAS("lacks cuDriverGetVersion;", output);
}

TEST(DriverEntries, ThatAreNowhereAreNamed)
{
    HAS("lacks cuMemAlloc;", Ask({"probe"}, {"MOIETY_DRIVER=" + Fake("gets4"),
                                             "FAKE_HIDE=cuMemAlloc"}));
}

TEST(DriverOpen, HappensOnceForThreadsThatComeTogether)
{
    EXPECT_EQ("threads=16 ok=16 same=16\n",
              Ask({"threads"}, {"MOIETY_DRIVER=" + door::Standin()}));
}

TEST(DriverOpen, MayBeTriedAgainAfterAFailure)
{
    std::string output =
        Ask({"retry", door::Standin()}, {"MOIETY_DRIVER=" + Fake("nothing")});
    HAS("status=MOIETY_E_NO_DRIVER\n", output);
    HAS("status=MOIETY_OK\nis_standin=1\n", output);
}

TEST(DriverOpen, IsKeptWhateverTheSettingSaysLater)
{
    std::string output =
        Ask({"retry", "nonsense"}, {"MOIETY_DRIVER=" + door::Standin()});
    LACKS("status=MOIETY_E", output);
}

TEST(DriverFork, ChildOfAUserIsRefused)
{
    std::string output = Ask({"fork"}, {"MOIETY_DRIVER=" + door::Standin()});
    HAS("status=MOIETY_OK\n", output);
    HAS("status=MOIETY_E_FORKED\nmessage=this process was forked", output);
}

TEST(DriverFork, ChildIsRefusedWhereTheKernelWipesNoPages)
{
    std::string output =
        Ask({"no-wipe-fork"}, {"MOIETY_DRIVER=" + door::Standin()});
    HAS("filtered=1\nstatus=MOIETY_OK\n", output);
    HAS("status=MOIETY_E_FORKED\n", output);
}

TEST(DriverFork, ChildThatCameBeforeFirstUseMayUseIt)
{
    std::string output =
        Ask({"fork-first"}, {"MOIETY_DRIVER=" + door::Standin()});
    LACKS("status=MOIETY_E", output);
    HAS("status=MOIETY_OK\n", output);
}

} // namespace
