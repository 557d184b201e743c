/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/oom/oracle/crew.h"

#include <stddef.h>

#include "tests/truth/kit.h"

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue; /* interrupted */
}

static void *serve(void *argument)
{
    struct hand *hand = argument;
    MUST(cu.cuCtxSetCurrent(hand->context));
    for (;;) {
        wait_for(&hand->told);
        if (!hand->act)
            return NULL;
        hand->act(hand->argument);
        (void)sem_post(&hand->done);
    }
}

static void start(struct hand *hand)
{
    kit_require(pthread_create(&hand->thread, NULL, serve, hand) == 0,
                "pthread_create");
}

static void stop(struct hand *hand)
{
    hand->act = NULL;
    (void)sem_post(&hand->told);
    (void)pthread_join(hand->thread, NULL);
}

void crew_begin(struct crew *crew, uint32_t count)
{
    crew->count = count;
    for (uint32_t i = 1; i < count; i++) {
        struct hand *hand = &crew->hands[i];
        MUST(cu.cuCtxGetCurrent(&hand->context));
        (void)sem_init(&hand->told, 0, 0);
        (void)sem_init(&hand->done, 0, 0);
        start(hand);
    }
}

void crew_end(struct crew *crew)
{
    for (uint32_t i = 1; i < crew->count; i++) {
        struct hand *hand = &crew->hands[i];
        stop(hand);
        (void)sem_destroy(&hand->told);
        (void)sem_destroy(&hand->done);
    }
}

void crew_act(struct crew *crew, uint32_t index, void (*act)(void *argument),
              void *argument)
{
    struct hand *hand = &crew->hands[index];
    if (index == 0) {
        act(argument);
        return;
    }
    hand->act = act;
    hand->argument = argument;
    (void)sem_post(&hand->told);
    wait_for(&hand->done);
}

void crew_replace(struct crew *crew, uint32_t index)
{
    if (index == 0)
        return;
    stop(&crew->hands[index]);
    start(&crew->hands[index]);
}
