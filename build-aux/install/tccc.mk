# Rules for make that compile models as a build step. In a Makefile:
#
#   include $(shell pkg-config --variable=makefile tccc)
#   app: app.o digits.a ; $(CC) $^ $(TCCRT_LIBS) -o $@      # app.c includes the generated digits.h
#   app.o: digits.h
#   all: digits.so                                          # or a shared library, opened with tccrt_open()
#
# Variables: TCCC        the compiler                       TCCC_FLAGS_MODEL  its flags for every model (-O3 --march=...)
#            TCCC_DEPS   dependency files that are read     digits.a: TCCC_FLAGS_MODEL += --name=mnist  sets them for one
# Where CC compiles for another processor (CC=aarch64-linux-gnu-gcc), models are compiled for it, too, with its runtime.
# A model is compiled again when it, a file that it names (external data), or the compiler has changed.
TCCC ?= tccc
tccc_machine := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
tccc_march_aarch64 := armv8-a
tccc_march_riscv64 := rv64gc
tccc_march := $(if $(filter $(shell uname -m),$(tccc_machine)),,$(tccc_march_$(tccc_machine)))
TCCC_FLAGS_MODEL ?= $(addprefix --march=,$(tccc_march))
TCCC_DEPS ?= $(wildcard *.tccc.d)
TCCRT_CFLAGS ?= $(shell pkg-config --cflags tccrt)
ifdef tccc_march
TCCRT_LIBS ?= $(shell pkg-config --variable=libdir tccrt)/$(tccc_machine)-linux-gnu/libtccrt.a -lm -lpthread -ldl
endif
TCCRT_LIBS ?= $(shell pkg-config --static --libs tccrt)

tccc_program := $(shell command -v $(TCCC))

%.so: %.onnx $(tccc_program)
	$(TCCC) $(TCCC_FLAGS_MODEL) $< -o $@ -MD -MF $@.tccc.d

%.a %.h: %.onnx $(tccc_program)
	$(TCCC) $(TCCC_FLAGS_MODEL) $< -o $*.a -H $*.h -MD -MF $*.a.tccc.d

# The rules of dependency files are nobody's default goal: make's first target is the including Makefile's.
tccc_goal := $(.DEFAULT_GOAL)
-include $(TCCC_DEPS)
.DEFAULT_GOAL := $(tccc_goal)
