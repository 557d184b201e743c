/*
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef MOIETY_EMM_NEP49_ARRAY_H_
#define MOIETY_EMM_NEP49_ARRAY_H_

#include "emm/nep49/numpy_api.h"

/* empty(alloc, show, shape, dtype, is_fortran, is_zeroed) -> array over the block
 * that alloc(nbytes) returns, which becomes its base. A method of the module. */
PyObject *moietyi_array_empty(PyObject *module, PyObject *arguments);

#endif
