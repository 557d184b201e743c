/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "moiety/probe.h"
#include "emm/native/native.h"

static PyObject *features_of(uint64_t features)
{
    PyObject *made = PyList_New(0);
    for (int bit = 0; made && bit < 64; bit++) {
        const char *name = moiety_feature_name(features & UINT64_C(1) << bit);
        PyObject *text = name ? PyUnicode_FromString(name) : NULL;
        if (name && (!text || PyList_Append(made, text)))
            Py_CLEAR(made);
        Py_XDECREF(text);
    }
    return made;
}

static PyObject *bus_id_of(const moiety_caps *caps)
{
    return PyUnicode_FromFormat("%04x:%02x:%02x.0", (int)caps->pci_domain,
                                (int)caps->pci_bus, (int)caps->pci_device);
}

static PyObject *py_probe_dictionary_of(const moiety_caps *caps)
{
    PyObject *made = Py_BuildValue(
        "{sOsisisss(ii)sssisy#}", "is_standin",
        caps->is_standin ? Py_True : Py_False, "driver_version",
        (int)caps->driver_version, "device_count", (int)caps->device_count,
        "name", caps->device_name, "compute_capability",
        (int)caps->compute_major, (int)caps->compute_minor, "library_path",
        caps->library_path, "host_numa_node", (int)caps->host_numa_node, "uuid",
        (const char *)caps->uuid, (Py_ssize_t)sizeof caps->uuid);
    if (made &&
        (native_put(made, "bus_id", bus_id_of(caps)) ||
         native_put(made, "features", features_of(caps->features)) ||
         native_put_u64(made, "total_memory_bytes", caps->total_memory_bytes) ||
         native_put_u64(made, "vmm_granularity_bytes",
                        caps->vmm_granularity_bytes)))
        Py_CLEAR(made);
    return made;
}

PyObject *native_probe(PyObject *module, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"device", NULL};
    moiety_caps caps = {.struct_size = sizeof caps};
    int device = 0;
    moiety_status status;
    if (!native_parse(arguments, names, "|O&:probe", keys, native_device_from,
                      &device))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_probe(device, &caps);
    Py_END_ALLOW_THREADS;
    return status == MOIETY_OK
               ? py_probe_dictionary_of(&caps)
               : native_refuse(PyModule_GetState(module), NULL, status);
}

static PyObject *text_of_machine(uint32_t format, moiety_status *status)
{
    enum { ROOM_BYTES = 1 << 20 };
    size_t length = 0;
    char *text = PyMem_Malloc(ROOM_BYTES);
    if (!text)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    *status = moiety_host_topology(format, text, ROOM_BYTES, &length);
    Py_END_ALLOW_THREADS;
    PyObject *made = NULL;
    if (*status == MOIETY_OK && length < ROOM_BYTES)
        made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
    else if (*status == MOIETY_OK)
        made = PyErr_NoMemory();
    PyMem_Free(text);
    return made;
}

PyObject *native_topology(PyObject *module, PyObject *arguments,
                          PyObject *names)
{
    static char *keys[] = {"json", NULL};
    int is_json = 0;
    moiety_status status = MOIETY_OK;
    if (!native_parse(arguments, names, "|p:topology", keys, &is_json))
        return NULL;
    PyObject *text = text_of_machine(is_json ? MOIETY_HOST_TOPOLOGY_JSON
                                             : MOIETY_HOST_TOPOLOGY_TEXT,
                                     &status);
    if (status != MOIETY_OK)
        native_raise(PyModule_GetState(module), NULL, status);
    return text;
}
