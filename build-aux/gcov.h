/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gcov.h - read first by every file of a build with --enable-gcov: processes that end by _exit() count too. gcov writes
 * its counters where a program ends by exit(); the compiler's children do not.
 */
/* As <unistd.h> has it, whose other names would meet those of our files. */
extern void _exit(int) __attribute__((__noreturn__));
void __gcov_dump(void);

static inline _Noreturn void gcov_exit(int status)
{
    __gcov_dump();
    _exit(status);
}
#define _exit gcov_exit
