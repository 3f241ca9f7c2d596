/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutant.h - mutation testing: MUTANT(n, right, wrong) marks an expression that a test must find wrong.
 *
 * An ordinary build has `right` there and nothing else. A build configured with --enable-mutants has `wrong` where the
 * environment variable TCCC_MUTANT is n, in the compiler, in tools and in the runtime that artifacts embed alike.
 * tests/mutants/mutants.def says what each number breaks and which test notices first; tests/mutants/run runs them
 * (tools/check --mutants).
 *
 * A number is used once, a line holds one at most (tests/mutants.sh). Both expressions have one type; only the chosen
 * one is evaluated. Not in constant expressions, nor in tables.
 */
#ifndef TCCRT_MUTANT_H
#define TCCRT_MUTANT_H

#ifdef TCCC_MUTANTS
int tcr_mutant(void); /* the number in TCCC_MUTANT, read once; 0: none. Any thread */
#define MUTANT(n, right, wrong) (tcr_mutant() == (n) ? (wrong) : (right))
#else
#define tcr_mutant() 0
#define MUTANT(n, right, wrong) (right)
#endif

#endif
