# SPDX-License-Identifier: Apache-2.0
"""How libmoiety.so is linked, for it and for the tests' variants of it."""

# Without --as-needed Bazel's link names libstdc++ and libm, and without a
# version script every global symbol would be exported: tests/abi checks both.
LIBRARY_LINKOPTS = [
    "-Wl,--as-needed",
    # Threads that used it call it when they end, whoever has closed it.
    "-Wl,-z,nodelete",
    "-Wl,-soname,libmoiety.so.0",
    "-Wl,--version-script=$(location //pool/install:libmoiety.map)",
    "-lhwloc",
    "-pthread",
    "-ldl",
]
