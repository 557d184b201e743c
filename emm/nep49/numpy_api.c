/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of NumPy's functions, below all that call them.
 */
#define MOIETYI_NUMPY_TABLE_HERE
#include "emm/nep49/numpy_api.h"

int moietyi_numpy_import(void)
{
    import_array1(-1);
    return 0;
}
