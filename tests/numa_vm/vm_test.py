# SPDX-License-Identifier: Apache-2.0
"""The runner itself: whatever goes wrong in a guest must fail its test."""

import os
import subprocess
import sys
import tempfile
import unittest

import steps
import vm

ONE_NODE = vm.Machine([vm.Node(1, 192)])
TIMEOUT_S = 120


class Options(unittest.TestCase):
    def test_cpus_and_memory_go_to_the_nodes_in_turn(self):
        machine = vm.Machine([vm.Node(2, 384), vm.Node(0, 128)])
        options = machine.options()
        self.assertEqual(options[:4], ["-smp", "2", "-m", "512"])
        self.assertIn("node,nodeid=0,memdev=m0,cpus=0-1", options)
        self.assertIn("node,nodeid=1,memdev=m1", options)

    def test_a_device_is_where_its_bus_id_says(self):
        machine = vm.Machine([vm.Node(1, 192)], [0, None])
        self.assertEqual(machine.bus_id(0), "0000:21:00.0")
        self.assertEqual(machine.bus_id(1), "0000:00:11.0")
        self.assertIn("edu,bus=pcie.0,addr=0x11", machine.options())


class Steps(unittest.TestCase):
    CASE = steps.Case("four pages", "run", "right 4", 0)

    def verdict(self, console):
        (result,) = steps.results_of(console, [self.CASE])
        return steps.is_as_wanted(self.CASE, result)

    def test_what_is_wanted(self):
        self.assertTrue(self.verdict("case 0\nright 4\nended 0 with 0\n"))

    def test_a_page_too_few(self):
        self.assertFalse(self.verdict("case 0\nright 3\nended 0 with 0\n"))

    def test_a_line_too_many(self):
        self.assertFalse(
            self.verdict("case 0\nright 4\nright 4\nended 0 with 0\n")
        )

    def test_the_wrong_status(self):
        self.assertFalse(self.verdict("case 0\nright 4\nended 0 with 1\n"))

    def test_a_case_that_does_not_end(self):
        with self.assertRaisesRegex(vm.VmError, '"four pages" did not end'):
            self.verdict("case 0\nright 4\n")


    def test_pages_on_the_right_nodes(self):
        case = steps.Case("two nodes", "run", "", nodes=[0, 2])
        said = "asked 9, node 0: 2, node 1: 3, node 2: 4"
        self.assertEqual(steps.pages_of(case, steps.Result(said, 0)), (9, 6))
        self.assertIsNone(steps.pages_of(case, steps.Result("Killed", 137)))


class Verdict(unittest.TestCase):
    """With programs in the place of the emulator."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def boot(self, text, timeout_s=TIMEOUT_S):
        qemu = os.path.join(self.folder, "qemu")
        with open(qemu, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{text}\n")
        os.chmod(qemu, 0o755)
        return vm.boot(ONE_NODE, "none", timeout_s, qemu)

    def test_the_last_line_gives_the_status(self):
        self.assertEqual(
            self.boot("echo hello; echo vm: exit status 3"), (3, "hello\n")
        )

    def test_no_last_line(self):
        with self.assertRaisesRegex(vm.VmError, "no last line.*\nhello"):
            self.boot("echo hello")

    def test_a_last_line_that_stops_in_its_middle(self):
        with self.assertRaisesRegex(vm.VmError, "no last line"):
            self.boot("echo vm: exit status")

    def test_the_emulator_fails(self):
        with self.assertRaisesRegex(vm.VmError, "exits with 1.*\nno nodes"):
            self.boot("echo no nodes >&2; echo vm: exit status 0; exit 1")

    def test_a_guest_that_hangs_is_killed_and_shown(self):
        with self.assertRaisesRegex(vm.VmError, "killed after.*\nhello") as at:
            self.boot("echo vm: started; echo hello; echo $$; "
                      "exec sleep 1000", timeout_s=10)
        pid = int(str(at.exception).split()[-1])
        self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_a_guest_that_does_not_start_is_booted_again(self):
        count = os.path.join(self.folder, "count")
        text = f"echo >> {count}; [ $(wc -l < {count}) = %d ] || exec sleep 1000\n"
        text += "echo vm: started; echo hello; echo vm: exit status 3"
        self.assertEqual(
            self.boot(text % vm.BOOTS, timeout_s=10), (3, "hello\n")
        )
        with self.assertRaisesRegex(vm.VmError, "killed after"):
            self.boot(text % vm.BOOTS, timeout_s=1)

    def test_a_program_whose_library_is_missing(self):
        ldd = os.path.join(self.folder, "ldd")
        with open(ldd, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\necho 'libx.so.1 => not found'\n")
        os.chmod(ldd, 0o755)
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = f"{self.folder}:{path}"
        with self.assertRaisesRegex(vm.VmError, "libx.so.1 => not found"):
            vm.pack(self.folder, ["/bin/true"], "")


class Kernel(unittest.TestCase):
    """With the emulator and a kernel."""

    def boot(self, script):
        with tempfile.TemporaryDirectory() as folder:
            initramfs = vm.pack(folder, ["/bin/false"], script)
            return vm.boot(ONE_NODE, initramfs, TIMEOUT_S)

    def test_a_program_that_fails(self):
        self.assertEqual(self.boot("/bin/false; exit $((6 + $?))"), (7, ""))

    def test_a_guest_that_ends_early(self):
        with self.assertRaisesRegex(vm.VmError, "no last line.*\nhello"):
            self.boot("echo hello; poweroff -f")


class Need(unittest.TestCase):
    def without_anything(self, **settings):
        return subprocess.run(
            [sys.executable, "-B", "-c", "import vm; vm.need()"],
            env={"PATH": "", "PYTHONPATH": os.path.dirname(vm.__file__)}
            | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def test_skipping_is_loud(self):
        done = self.without_anything()
        self.assertIn("SKIPPED, NOTHING WAS CHECKED: qemu", done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_ci_does_not_skip(self):
        done = self.without_anything(CI="true")
        self.assertIn("FAILED: qemu", done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_a_kernel_is_needed_too(self):
        done = self.without_anything(
            PATH=os.environ["PATH"], MOIETY_VM_KERNEL="/nowhere/vmlinuz"
        )
        self.assertIn("SKIPPED, NOTHING WAS CHECKED: a kernel", done.stdout)


if __name__ == "__main__":
    vm.need()
    unittest.main()
