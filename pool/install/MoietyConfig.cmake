# SPDX-License-Identifier: Apache-2.0
#
# find_package(Moiety) gives two imported targets: Moiety::moiety, the shared
# library, and Moiety::static, the archive with all that it needs. Paths are
# taken from this file's own place, so that an installed tree may be moved.
get_filename_component(_moiety_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.."
                       ABSOLUTE)

include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(NOT TARGET Moiety::moiety)
  add_library(Moiety::moiety SHARED IMPORTED)
  set_target_properties(
    Moiety::moiety
    PROPERTIES IMPORTED_LOCATION "${_moiety_prefix}/lib/libmoiety.so"
               IMPORTED_SONAME "libmoiety.so.0"
               INTERFACE_INCLUDE_DIRECTORIES "${_moiety_prefix}/include")
endif()

if(NOT TARGET Moiety::static)
  add_library(Moiety::static STATIC IMPORTED)
  set_target_properties(
    Moiety::static
    PROPERTIES IMPORTED_LOCATION "${_moiety_prefix}/lib/libmoiety.a"
               INTERFACE_INCLUDE_DIRECTORIES "${_moiety_prefix}/include"
               INTERFACE_LINK_LIBRARIES "hwloc;Threads::Threads;${CMAKE_DL_LIBS}"
               # Threads that used a plugin call into it when they end; and its
               # calls are for its own copy, whatever else the process has.
               INTERFACE_LINK_OPTIONS
               "LINKER:-z,nodelete;LINKER:--exclude-libs,libmoiety.a")
endif()

unset(_moiety_prefix)
