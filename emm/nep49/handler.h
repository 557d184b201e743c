/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Handlers as NumPy knows them: capsules of a name, a version and the four
 * functions of memory.h.
 */
#ifndef MOIETY_EMM_NEP49_HANDLER_H_
#define MOIETY_EMM_NEP49_HANDLER_H_

#include "emm/nep49/numpy_api.h"

/* Methods of the module. */

/* handler(arena_capsule, name) -> the capsule "mem_handler" */
PyObject *moietyi_handler_make(PyObject *module, PyObject *arguments);
/* context(handler) -> the address that its functions are called with */
PyObject *moietyi_handler_context(PyObject *module, PyObject *capsule);
/* set_handler(handler or None) -> the one before */
PyObject *moietyi_handler_set(PyObject *module, PyObject *capsule);
/* get_handler() -> that of this context */
PyObject *moietyi_handler_get(PyObject *module, PyObject *none);

/* A dictionary: the addresses of the four functions, by name. */
PyObject *moietyi_handler_functions(void);

#endif
