/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c - the table of fields.h, made of options.def. It requires nothing: Python's module has one of its own. */
#include "compiler/fields.h"

#define OF_OPTIONS struct tccc_options
#define OF_TRAIN struct tccc_train
#define OF_SPLIT struct tccc_split

enum { ARGUMENT = TCCC_ARGUMENT, KEY = TCCC_KEY, PATH = TCCC_PATH, AGAIN = TCCC_AGAIN };

const struct tccc_field tccc_fields[] = {
#define TCCC_FIELD(id, long_name, short_name, argument, kind, tools, group, help, in, type, member, least, most, uses) \
    {long_name, #member, TCCC_##in, TCCC_##type, uses, offsetof(OF_##in, member), least, most},
#include "compiler/options.def"
};

const int tccc_nfields = sizeof tccc_fields / sizeof *tccc_fields;
