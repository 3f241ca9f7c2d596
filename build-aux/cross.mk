# SPDX-License-Identifier: Apache-2.0
# libtccrt.a and libtccdata.a for another processor, and tccc-guest, made by TRIPLET-gcc. Called by runtime/Makefile.inc with TRIPLET (the folder, too), SOURCE (the
# source tree), SOURCES and DATA (the archives' files in it). Atomic operations stay in the code: the functions of libgcc that GCC would call are not
# in artifacts, which are linked without it.
CC = $(TRIPLET)-gcc
AR = $(TRIPLET)-ar
CFLAGS = -std=gnu17 -Wall -Wextra -O2 -g -fPIC -ffp-contract=off -fno-semantic-interposition -fvisibility=hidden $(if $(filter aarch64-%,$(TRIPLET)),-mno-outline-atomics)
CPPFLAGS = -D_GNU_SOURCE -I$(SOURCE)
objects = $(SOURCES:%.c=$(TRIPLET)/%.o)
data = $(DATA:%.c=$(TRIPLET)/%.o)

# What GCC calls for lack of an instruction, bytes swapped or exchanged atomically, goes into the archive where that is so.
helpers = $(if $(filter riscv64-%,$(TRIPLET)),$(shell $(CC) -print-libgcc-file-name) $(shell $(CC) -print-file-name=libatomic.a))
guest = $(addprefix $(TRIPLET)/tools/run/,guest.o guest_io.o)

all: $(TRIPLET)/libtccrt.a $(TRIPLET)/libtccdata.a $(TRIPLET)/tccc-guest
$(TRIPLET)/libtccrt.a: $(objects)
	@echo "  AR       $@"; rm -f $@ && $(AR) cr $@ $^ && for h in $(helpers); do printf 'OPEN %s\nADDLIB %s\nSAVE\nEND\n' $@ $$h | $(AR) -M || exit 1; done
$(TRIPLET)/libtccdata.a: $(data)
	@echo "  AR       $@"; rm -f $@ && $(AR) cr $@ $^
$(TRIPLET)/tccc-guest: $(guest) $(TRIPLET)/libtccrt.a
	@echo "  CCLD     $@"; $(CC) -o $@ $^ -lm -lpthread -ldl
$(TRIPLET)/%.o: $(SOURCE)/%.c
	@echo "  CC       $@"; mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
-include $(objects:.o=.d) $(data:.o=.d) $(guest:.o=.d)
