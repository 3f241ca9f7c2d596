/* SPDX-License-Identifier: Apache-2.0 */
/* child_int.h - code generators run in child processes, so that neither a crash nor a fatal error of LLVM takes the
 * caller down. */
#ifndef TCC_CHILD_INT_H
#define TCC_CHILD_INT_H

#include "ir/ir.h"

#include <sys/types.h>

/*
 * Runs jobs 0..n-1, at most `limit` at once, each in a forked child that calls work(jobs, i, report). The child ends
 * the process itself: _exit(0) when all went well; otherwise it writes a message to `report` and ends with another
 * status. Its standard error goes to `report` too. A failure for want of memory or space is an IR_D_ENVIRONMENT. False
 * after a diagnostic with the first failed child's message; all children have ended then.
 */
bool child_run(struct ir_ctx *ctx, int n, int limit, void (*work)(void *jobs, int i, int report), void *jobs);
/* With this status a child says that it lacked memory. */
enum { CHILD_NO_MEMORY = 3 };
/* Does what a program said at its end mean that memory or space on a disk was lacking? */
bool child_lacked(const char *text);
/* Runs argv[0] (by PATH) to its end; collects up to `size` bytes of what it says. Its exit status, 128: it died of a
 * signal, 127 or -1: it could not be started. */
int child_program(char *const *argv, char *text, size_t size);
/* Several such programs, at most `limit` at once. code: as of child_program(); text: what it says. */
struct child_program { char *const *argv; int code; char text[1500]; };
void child_programs(struct child_program *programs, int n, int limit);
/* What one such child, work(NULL, 0, report), writes to `report` when all goes well; false after a diagnostic. */
bool child_ask(struct ir_ctx *ctx, void (*work)(void *jobs, int i, int report), char *text, size_t size);
/* Appends the file to `to` and removes it; nothing where there is none. */
void child_take_dump(const char *path, FILE *to);

#endif
