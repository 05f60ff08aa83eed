#define _GNU_SOURCE
#include "faults.h"
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

enum { NAME_SIZE = 80, OPEN_FILES = 64, CANNOT_TRACE = 77 };

/* The parent of vfork waits in state D until the child is gone. */
static void hang_uninterruptible(unsigned seconds) {
    if (vfork() == 0) {
        sleep(seconds);
        _exit(0);
    }
}

/* A zombie that is traced is visible to its tracer alone, so the real parent waits in vain: the nearest thing to a
 * process that SIGKILL does not end which needs neither root nor a broken driver. */
static void hang_unkillable(unsigned seconds) {
    int seized[2];
    char answer = 0;
    pid_t caller = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (pipe(seized))
        _exit(CANNOT_TRACE);
    if (fork() == 0) {
        setsid(); /* out of the caller's group, which is killed as a whole */
        answer = ptrace(PTRACE_SEIZE, caller, 0, 0) == 0;
        if (write(seized[1], &answer, 1) != 1)
            _exit(1);
        for (int file = 0; file < OPEN_FILES; file++)
            close(file);
        sleep(seconds);
        _exit(0);
    }
    if (read(seized[0], &answer, 1) != 1 || !answer)
        _exit(CANNOT_TRACE);
    for (;;)
        pause();
}

static void hang(unsigned seconds) {
    char kind[SCENARIO_TEXT_SIZE];
    if (seconds == 0)
        return;
    scenario_text("hang.kind", "sleep", kind);
    if (strcmp(kind, "uninterruptible") == 0)
        hang_uninterruptible(seconds);
    else if (strcmp(kind, "unkillable") == 0)
        hang_unkillable(seconds);
    else
        sleep(seconds);
}

int fault_at_init(void) {
    hang((unsigned)scenario_number("init.hang", 0));
    return (int)scenario_number("init", 0);
}

int fault_at_handle(int card) {
    return (int)scenario_card_number(card, "handle", 0);
}

int fault_in_call(int card, const char *function) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "hang.%s", function);
    hang((unsigned)scenario_card_number(card, name, scenario_card_number(card, "hang", 0)));
    snprintf(name, sizeof name, "return.%s", function);
    return (int)scenario_card_number(card, name, scenario_card_number(card, "return", 0));
}
