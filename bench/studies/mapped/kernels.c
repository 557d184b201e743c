/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/studies/mapped/kernels.h"

#include <dlfcn.h>
#include <string.h>

#include "bench/studies/mapped/must.h"

#define BLOCK_THREADS 256U

/* Word i of the block is `value` + i. */
static const char source[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
#define WORD_OF_THREAD                                                         \
    "ld.param.u64 %a,[block];ld.param.u32 %v,[value];ld.param.u32 %n,[words];" \
    "mov.u32 %i,%ctaid.x;mov.u32 %w,%ntid.x;mov.u32 %t,%tid.x;"                \
    "mad.lo.u32 %i,%i,%w,%t;setp.ge.u32 %over,%i,%n;@%over bra END;"           \
    "mul.wide.u32 %o,%i,4;add.u64 %a,%a,%o;add.u32 %v,%v,%i;"
#define REGISTERS                                                              \
    ".reg .pred %over;.reg .b32 %v,%n,%i,%w,%t;.reg .b64 %a,%o,%e;"
    ".visible .entry fill(.param .u64 block,.param .u32 value,"
    ".param .u32 words){" REGISTERS WORD_OF_THREAD
    "st.global.u32 [%a],%v;END:ret;}\n"
#define CHECK(name, load)                                                      \
    ".visible .entry " name "(.param .u64 block,.param .u32 value,"            \
    ".param .u32 words,.param .u64 wrong){" REGISTERS                          \
    "ld.param.u64 %e,[wrong];" WORD_OF_THREAD load " %w,[%a];"                 \
    "setp.eq.u32 %over,%w,%v;@%over bra END;mov.u32 %w,1;"                     \
    "red.global.add.u32 [%e],%w;END:ret;}\n"
    CHECK("check", "ld.global.ca.u32")
        CHECK("check_read_only", "ld.global.nc.u32");

static struct {
    CUresult (*load)(void **out_module, const void *image);
    CUresult (*find)(kernel *out, void *module, const char *name);
    CUresult (*launch)(kernel which, unsigned grid_x, unsigned grid_y,
                       unsigned grid_z, unsigned block_x, unsigned block_y,
                       unsigned block_z, unsigned shared_bytes, CUstream stream,
                       void **arguments, void **extra);
} entries;

static void find_entry(void *library, const char *name, void *out)
{
    void *entry = library ? dlsym(library, name) : NULL;
    must(entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND, name);
    /* ISO C has no conversion between the two kinds of pointers. */
    memcpy(out, &entry, sizeof(entry));
}

void kernels_load(const struct moietyi_driver *driver, struct kernels *out)
{
    void *module;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    out->driver = driver;
    find_entry(library, "cuModuleLoadData", (void *)&entries.load);
    find_entry(library, "cuModuleGetFunction", (void *)&entries.find);
    find_entry(library, "cuLaunchKernel", (void *)&entries.launch);
    must(entries.load(&module, source), "cuModuleLoadData");
    must(entries.find(&out->fill, module, "fill"), "fill");
    must(entries.find(&out->check, module, "check"), "check");
    must(entries.find(&out->check_read_only, module, "check_read_only"),
         "check_read_only");
    must(driver->cuMemAlloc(&out->wrong, sizeof(uint32_t)), "cuMemAlloc");
}

void kernels_launch(const struct kernels *kernels, CUstream stream,
                    kernel which, CUdeviceptr block, uint32_t value,
                    unsigned words)
{
    CUdeviceptr wrong = kernels->wrong;
    void *arguments[] = {&block, &value, &words, &wrong};
    must(entries.launch(which, (words + BLOCK_THREADS - 1) / BLOCK_THREADS, 1,
                        1, BLOCK_THREADS, 1, 1, 0, stream, arguments, NULL),
         "cuLaunchKernel");
}

void kernels_forget_wrong(const struct kernels *kernels, CUstream stream)
{
    must(kernels->driver->cuMemsetD32Async(kernels->wrong, 0, 1, stream),
         "cuMemsetD32Async");
}

uint32_t kernels_count_wrong(const struct kernels *kernels, CUstream stream)
{
    uint32_t wrong;
    must(kernels->driver->cuMemcpyDtoHAsync(&wrong, kernels->wrong,
                                            sizeof(wrong), stream),
         "cuMemcpyDtoHAsync");
    must(kernels->driver->cuStreamSynchronize(stream), "cuStreamSynchronize");
    return wrong;
}
