# SPDX-License-Identifier: Apache-2.0
#
# find_package(Binade) gives two imported targets: Binade::binade, the shared
# library, and Binade::static, the archive with all that it needs. Paths are
# taken from this file's own place, so that an installed tree may be moved.
get_filename_component(_binade_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.."
                       ABSOLUTE)

include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(NOT TARGET Binade::binade)
  add_library(Binade::binade SHARED IMPORTED)
  set_target_properties(
    Binade::binade
    PROPERTIES IMPORTED_LOCATION "${_binade_prefix}/lib/libbinade.so"
               IMPORTED_SONAME "libbinade.so.0"
               INTERFACE_INCLUDE_DIRECTORIES "${_binade_prefix}/include")
endif()

if(NOT TARGET Binade::static)
  add_library(Binade::static STATIC IMPORTED)
  set_target_properties(
    Binade::static
    PROPERTIES IMPORTED_LOCATION "${_binade_prefix}/lib/libbinade.a"
               INTERFACE_INCLUDE_DIRECTORIES "${_binade_prefix}/include"
               INTERFACE_LINK_LIBRARIES "hwloc;Threads::Threads;${CMAKE_DL_LIBS}"
               # Threads that used a plugin call into it when they end.
               INTERFACE_LINK_OPTIONS "LINKER:-z,nodelete")
endif()

unset(_binade_prefix)
