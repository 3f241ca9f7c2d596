/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: something that runs, be it an artifact, a model (compiled to a temporary artifact) or a model in
 * the reference interpreter. Messages go to standard error; functions return exit codes (EXIT_FINE when all is well).
 */
#ifndef TCCC_TOOLS_MODEL_INT_H
#define TCCC_TOOLS_MODEL_INT_H

#include "runtime/tccrt.h"
#include "tools/options_int.h"
#include "tools/values/values_int.h"

struct tccc_options;

/* One input or output; dims as in struct tccrt_value_info; least, most: of an open axis, as of tccrt_input_bounds(). */
struct model_value {
    struct tccrt_value_info info;
    enum value_kind kind;
    int64_t least[TCC_MAX_RANK], most[TCC_MAX_RANK];
};

struct model {
    const char *entry;           /* what runs: --entry, or the first */
    int nin, nout;
    int nneeded;                 /* inputs; the others, VALUE_DEFAULT, have values where none are given */
    struct model_value *in, *out;
    double compile_ms, load_ms;
    int stage, tensor;           /* struct tccrt_options has them; 0: all */
    char *facts;                 /* what the compiler said of it, where --html asks; NULL: it was an artifact */
    size_t facts_size;
    int sizes;                   /* which ones --random takes for open axes: sizes_next() */
    bool tensors_only;           /* every value is a ranked tensor that is no string: tccrt_run does */
    /* One of the three: */
    struct tccrt_model *artifact;
    struct tccrt_session *session;
    struct emulated *emulated;   /* an artifact of another processor */
    struct ir_ctx *ctx;          /* the interpreter's */
    struct ir_module *module;
    struct kn_staged *staged;    /* that runs; NULL: func */
    struct ir_func *func;
    struct ir_interp_state *state;
};

/* Compile flags of the command line -> options of the library; EXIT_FINE or EXIT_USAGE (after a message). */
int compile_options(const struct options *o, struct tccc_options *c);
/* fields.c: of those the members that are options, and of a training step; false after a message. What isn't given
 * stays as it is. */
struct tccc_train;
struct tccc_split;
bool fields_compile(const struct options *o, struct tccc_options *c);
bool fields_train(const struct options *o, struct tccc_train *t);
bool fields_split(const struct options *o, struct tccc_split *s);
/* The options of --train, which t then points into; EXIT_FINE or EXIT_USAGE (after a message). */
bool train_wanted(const struct options *o);                       /* --train, or tccc-train */
int train_flags(const struct options *o, struct tccc_train *t);
bool train_option(enum option_id id);        /* one of those that say what a step is compiled to, or how ranks run it */
/* Compiles; where the compiler itself is at fault (EXIT_BUG) once more, for a file that shows it. */
int compile_model(const struct options *o, const struct tccc_options *c);

/*
 * ema.c: the averages that a step compiled with --ema keeps, in the parameters' place. Of all ranks of `group` those of
 * rank 0 (NULL: this process's own). What ema_take() has kept goes back by ema_give_back(), which frees it, whether
 * ema_take() succeeded or not. False: no memory, or a message of the run-time library's.
 */
struct ema_kept;
bool ema_there(const struct model *m);
bool ema_take(struct model *m, struct tccrt_comm *group, struct ema_kept **kept);
bool ema_give_back(struct model *m, struct ema_kept *kept);
/* of a checkpoint; EXIT_FINE, or an exit code after a message */
int ema_load(const struct options *o, struct model *m, const char *path);
/* The state variable's value from one of its shape and of any type of numbers, whose data need not be aligned. False:
 * no memory, another shape, or no such variable. */
bool state_set_as(struct tccrt_session *s, const char *name, const struct tcc_tensor *from);
/* heeds.c: does the session's device heed the options of a run that are given? Else EXIT_USAGE after a message. */
int model_heeds(const struct options *o, const struct tccrt_session *s);
int compile_heeds(const struct options *o);  /* the same of the options of a compilation, and its target */
/* info.c: tccc --info, of the model that o->words[0] names. EXIT_FINE, or an exit code after a message. */
int info_print(const struct options *o);

/* The world of ranks over the engine that --comm names; alone: of this process, and the name is only checked. */
int model_world(const struct options *o, bool alone, struct tccrt_comm **world);
/* Opens `path`: a .so is an artifact; else it is compiled with the command line's flags, or, with --interpret, read
 * only. `why` (ERROR_SIZE, may be NULL) gets the first error instead of standard error. */
int model_open(const struct options *o, const char *path, struct model *m, char *why);
/* The same model in the interpreter, whatever the command line says. */
int model_open_interpreted(const struct options *o, const char *path, struct model *m);
/* A session with the command line's --threads and --profile; model_open has made none yet. */
int model_session(const struct options *o, struct model *m, int threads, char *why);
/* The sizes that the version which ran last is for, "N = 1"; NULL: the entry point has no shape versions. */
const char *model_version(const struct model *m);
/* fields of a JSON object that say what a device has done; none without one */
void model_put_device(const struct model *m);
/* Runs once. outputs[i] is the caller's. A tcc_status; `error` says why (ERROR_SIZE). */
int model_run(struct model *m, struct tcc_object *const *inputs, struct tcc_object **outputs, char *error);
/* For runs that are measured: caches that the session holds are emptied, other state stays. A tcc_status. */
int model_restart(struct model *m);
int model_exit_code(int status);             /* of a tool, for a tcc_status of a run */
void model_close(struct model *m);
bool model_is_artifact(const char *path);   /* does it begin as an ELF file? */

/* model_interp.c, for model.c: model_open() and model_run() of a model in the interpreter. */
int interp_open(const struct options *o, const char *path, struct model *m, char *why);
int interp_run(struct model *m, struct tcc_object *const *given, struct tcc_object **outputs, char *error);
/* For those that open a model. An error goes to `why` when there is one, else to standard error; gives `code`. */
int model_error(const struct options *o, char *why, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* For those that describe one: room for its values, false: no memory; what kind one is, whose info is set. */
bool model_allocate(struct model *m, int nneeded, int ndefaults, int nout);
void model_note_kind(struct model *m, struct model_value *v);

double now_ms(void);
double sort_times(double *times, int n);     /* ascending; their median. n > 0 */

/* Inputs of run number `run` (from 0) of tccc-run and tccc-bench: --input, and --random for the others (when `random`,
 * or when asked for). An input that is given once is the same in all runs. */
int inputs_read(const struct options *o, const struct model *m, bool random, int run, struct tcc_object **inputs);
/* How many runs the command line has inputs for; EXIT_USAGE after a message: inputs disagree. */
int inputs_runs(const struct options *o, const struct model *m, int *runs);
/* Writes the outputs to --output-dir, where that is given; run: to the folder run_RUN in it, 0: not. */
int outputs_write(const struct options *o, const struct model *m, int run, struct tcc_object *const *outputs);
/* A run refused the sizes that --random took for axes which nobody gave: takes the next ones, and reads those inputs
 * again. False: there are no others (or no memory), and the choice is the first one again. `inputs` are those of
 * inputs_read(). */
bool inputs_resize(const struct options *o, struct model *m, bool random, int run, struct tcc_object **inputs);
/* model_run() of what inputs_read() read, at other sizes if need be and --random chose them. A tcc_status; `error` says
 * what was wrong with the first choice. */
int inputs_run(const struct options *o, struct model *m, int run, struct tcc_object **in, struct tcc_object **out,
               char *error);
/* They go, and with objects_drop() the list, too, where there is one. */
void objects_free(struct tcc_object **list, int n);
void objects_drop(struct tcc_object **list, int n);

/* --test-data, --test-suite. inputs: a folder's input_K.pb; an exit code, and why. */
int testdata_inputs(const struct model *m, const char *dir, struct tcc_object **in, char *why);
int testdata_run(const struct options *o, struct model *m, const char *dir, const struct tolerance *tolerance,
                 char *why);
int testdata_all(const struct options *o, const char *model, const char *const *dirs, int ndirs);
int check_run(const struct options *o, const char *path);
int suite_run(const struct options *o, const char *dir);
/* The tolerance of the command line over the defaults; EXIT_USAGE after a message. */
int tolerance_read(const struct options *o, struct tolerance *t);

/* emit.c, tccc --emit: the images of the artifact that has been written as these options say, as files beside it. An
 * exit code. */
int emit_images(const struct options *o, const struct tccc_options *c);
/* emit_neff.c: the container of an image for NeuronCores. An exit code; whether it could be written the caller asks the
 * stream. */
struct tcc_model;
struct tcc_pimage;
int emit_neff(const struct options *o, const struct tcc_model *m, const struct tcc_pimage *image, FILE *out);

#endif
