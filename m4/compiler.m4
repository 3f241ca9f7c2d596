# What only the compiler needs: LLVM, and what reads ONNX files.

# TCCC_NEEDS_LLVM: LLVM 19, its C API only. The shared library, which is loaded when something is compiled (compiler/llvm_int.h).
AC_DEFUN([TCCC_NEEDS_LLVM], [
AC_ARG_WITH([llvm-config], [AS_HELP_STRING([--with-llvm-config=PROGRAM], [llvm-config of LLVM 19])],
            [LLVM_CONFIG=$withval], [AC_PATH_PROGS([LLVM_CONFIG], [llvm-config-19 llvm-config])])
AS_IF([test "x$LLVM_CONFIG" = x], [AC_MSG_ERROR([llvm-config-19 not found (Debian: llvm-19-dev)])])
AC_MSG_CHECKING([for LLVM 19])
llvm_version=`$LLVM_CONFIG --version`
AS_CASE([$llvm_version], [19.*], [AC_MSG_RESULT([$llvm_version])],
        [AC_MSG_ERROR([found '$llvm_version'; LLVM 19 is needed (Debian: llvm-19-dev)])])
LLVM_CFLAGS="-I`$LLVM_CONFIG --includedir`"
llvm_bindir=`$LLVM_CONFIG --bindir`
llvm_libdir=`$LLVM_CONFIG --libdir`
AC_MSG_CHECKING([for the name of LLVM's shared library])
LLVM_SONAME=`LC_ALL=C ${OBJDUMP-objdump} -p "\`$LLVM_CONFIG --libfiles --link-shared\`" | sed -n 's/^ *SONAME *//p'`
AS_IF([test "x$LLVM_SONAME" != x], [AC_MSG_RESULT([$LLVM_SONAME])],
      [AC_MSG_ERROR([LLVM's shared library not found (Debian: llvm-19-dev)])])
AC_DEFINE_UNQUOTED([TCCC_LLVM_NAME], ["$LLVM_SONAME"], [LLVM's library])
AC_DEFINE_UNQUOTED([TCCC_LLVM_FOLDER], ["$llvm_libdir"], [where it is looked for last])
AC_SUBST([LLVM_CFLAGS])
AC_SUBST([LLVM_LIBRARY], [$llvm_libdir/$LLVM_SONAME])
# LLVM throws, and AddressSanitizer has to see the C++ library from the start.
AS_IF([test "x$enable_asan" = xyes], [CXX_LIBS="-Wl,--no-as-needed -lstdc++"], [CXX_LIBS=])
AC_SUBST([CXX_LIBS])
])
