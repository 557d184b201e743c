/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Replays what the fuzzer found worth keeping: argument 1 is the folder.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>

#define INPUT_BYTES_MAX (1U << 20)
#define INPUTS_MIN 50

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
{
    static uint8_t bytes[INPUT_BYTES_MAX];
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rbe");
    if (!file)
        return 0;
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(bytes, size);
    return 1;
}

int main(int argc, char **argv)
{
    int inputs = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder)
        return 2;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            inputs += replay(argv[1], entry->d_name);
    (void)closedir(folder);
    printf("%d inputs\n", inputs);
    return inputs >= INPUTS_MIN ? 0 : 1;
}
