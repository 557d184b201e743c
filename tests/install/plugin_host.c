/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Unloads a plugin while the thread that used it lives; then that ends.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef int use_function(void);

static use_function *use;
static pthread_barrier_t used;
static pthread_barrier_t unloaded;
static int status;

static void *run(void *unused)
{
    (void)unused;
    status = use();
    (void)pthread_barrier_wait(&used);
    (void)pthread_barrier_wait(&unloaded);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = plugin ? dlsym(plugin, "plugin_use") : NULL;
    if (!found) {
        (void)fprintf(stderr, "no plugin: %s\n", dlerror());
        return 1;
    }
    memcpy(&use, &found, sizeof(use));
    (void)pthread_barrier_init(&used, NULL, 2);
    (void)pthread_barrier_init(&unloaded, NULL, 2);
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        return 1;
    (void)pthread_barrier_wait(&used);
    int refused = dlclose(plugin);
    (void)pthread_barrier_wait(&unloaded);
    (void)pthread_join(thread, NULL);
    (void)printf("status %d, closed %d\n", status, refused);
    return 0;
}
