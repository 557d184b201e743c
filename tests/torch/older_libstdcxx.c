/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Functions that headers of libstdc++ 12 call and that the one of manylinux_2_28
 * lacks, by those that it has: linked into the libraries that prebuilt.py makes.
 */

#define HIDDEN __attribute__((visibility("hidden")))
#define OSTRINGSTREAM                                                          \
    "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEE"

enum { kIosBaseOut = 16 };

/* std::__throw_bad_array_new_length() throws what that is derived from. */
void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv");
HIDDEN void
throw_bad_array_new_length(void) __asm__("_ZSt28__throw_bad_array_new_lengthv");

void throw_bad_array_new_length(void)
{
    throw_bad_alloc();
}

/* std::ostringstream() is std::ostringstream(std::ios_base::out). */
void make_ostringstream_for(void *self,
                            int mode) __asm__(OSTRINGSTREAM
                                              "C1ESt13_Ios_Openmode");
HIDDEN void make_ostringstream(void *self) __asm__(OSTRINGSTREAM "C1Ev");

void make_ostringstream(void *self)
{
    make_ostringstream_for(self, kIosBaseOut);
}
