/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Unloads a plugin while the thread that used it lives; then that ends. With a
 * second argument, that library is there before the plugin, for all to use.
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

/* Whether the plugin calls a copy of its own. */
static int is_apart(void *plugin, void *library)
{
    int (*has)(void *);
    void *found = dlsym(plugin, "plugin_has");
    void *function = library ? dlsym(library, "moiety_alloc") : NULL;
    if (!found || !function) {
        (void)fprintf(stderr, "no library: %s\n", dlerror());
        return 0;
    }
    memcpy(&has, &found, sizeof(has));
    if (has(function))
        (void)fprintf(stderr, "the plugin uses the program's library\n");
    return !has(function);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *library = argc == 3 ? dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) : NULL;
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    void *found = plugin ? dlsym(plugin, "plugin_use") : NULL;
    if (!found) {
        (void)fprintf(stderr, "no plugin: %s\n", dlerror());
        return 1;
    }
    memcpy(&use, &found, sizeof(use));
    if (argc == 3 && !is_apart(plugin, library))
        return 1;
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
