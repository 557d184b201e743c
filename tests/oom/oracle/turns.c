/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>

#include "tests/oom/oracle/crew.h"
#include "tests/oom/oracle/games.h"

#define LINES_MOST 60U

/* What the next step's thread needs to know. */
struct turn {
    struct play play;
    const struct step *step;
    struct history_block *slots[PROGRAM_SLOTS];
    bool is_refused;
    struct refusal refusal;
};

static void take_turn(void *argument)
{
    struct turn *turn = argument;
    const struct step *step = turn->step;
    struct history_block **slot = &turn->slots[step->slot];
    turn->is_refused = false;
    if (step->kind == STEP_ALLOC && !*slot) {
        *slot = play_alloc(&turn->play, step->stream, step->size_bytes,
                           &turn->refusal);
        turn->is_refused = !*slot;
    } else if (step->kind == STEP_FREE && *slot) {
        play_free(&turn->play, *slot, step->how, step->stream, step->other);
        *slot = NULL;
    }
}

static void do_step(struct turn *turn, struct crew *crew,
                    const struct step *step)
{
    turn->step = step;
    turn->is_refused = false;
    switch (step->kind) {
    case STEP_QUEUE:
        device_queue(turn->play.device, step->stream);
        break;
    case STEP_FINISH:
        device_finish(turn->play.device, step->stream);
        break;
    case STEP_END:
        crew_replace(crew, step->thread);
        break;
    case STEP_ALLOC:
    case STEP_FREE:
    default:
        crew_act(crew, step->thread, take_turn, turn);
        break;
    }
}

static enum history_verdict judge(const struct games *games, struct turn *turn)
{
    enum history_verdict verdict = play_judge(&turn->play, &turn->refusal);
    if (games->is_checked)
        play_check(&turn->play, &turn->refusal, verdict);
    return verdict;
}

size_t turns_play(struct games *games, const struct program *program,
                  struct tally *tally)
{
    struct turn turn = {0};
    struct crew crew;
    size_t found = program->count;
    play_begin(&turn.play, &games->device, &program->setting,
               program->count + 1, tally);
    crew_begin(&crew, program->setting.thread_count);
    for (size_t i = 0; i < program->count; i++) {
        do_step(&turn, &crew, &program->steps[i]);
        if (turn.is_refused && judge(games, &turn) == HISTORY_FALSE &&
            found == program->count)
            found = i;
    }
    crew_end(&crew);
    play_end(&turn.play);
    return found;
}

static void show(struct games *games, struct program *program)
{
    printf("a false failure:\n");
    program_print(program, LINES_MOST, stdout);
    shrink(games, program);
    printf("shrunk:\n");
    program_print(program, LINES_MOST, stdout);
    (void)fflush(stdout);
}

void games_in_turns(struct games *games)
{
    uint64_t seed = games->seed;
    for (; atomic_load(&games->tally.failures) < games->failures; seed++) {
        struct program program =
            program_make(seed, games->steps, &games->chances);
        size_t found = turns_play(games, &program, &games->tally);
        if (found < program.count && games->shown) {
            games->shown--;
            program_cut(&program, found + 1, program.count - found - 1);
            show(games, &program);
        }
        program_free(&program);
    }
}
