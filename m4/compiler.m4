# What only the compiler needs: LLVM, and what reads ONNX files.

# TCCC_NEEDS_LLVM: LLVM 19, its C API only. The shared library: a static one costs a minute at every link.
AC_DEFUN([TCCC_NEEDS_LLVM], [
AC_ARG_WITH([llvm-config], [AS_HELP_STRING([--with-llvm-config=PROGRAM], [llvm-config of LLVM 19])],
            [LLVM_CONFIG=$withval], [AC_PATH_PROGS([LLVM_CONFIG], [llvm-config-19 llvm-config])])
AS_IF([test "x$LLVM_CONFIG" = x], [AC_MSG_ERROR([llvm-config-19 not found (Debian: llvm-19-dev)])])
AC_MSG_CHECKING([for LLVM 19])
llvm_version=`$LLVM_CONFIG --version`
AS_CASE([$llvm_version], [19.*], [AC_MSG_RESULT([$llvm_version])],
        [AC_MSG_ERROR([found '$llvm_version'; LLVM 19 is needed (Debian: llvm-19-dev)])])
LLVM_CFLAGS="-I`$LLVM_CONFIG --includedir`"
LLVM_LIBS="`$LLVM_CONFIG --ldflags` `$LLVM_CONFIG --libs --link-shared`"
llvm_bindir=`$LLVM_CONFIG --bindir`
AC_SUBST([LLVM_CFLAGS])
AC_SUBST([LLVM_LIBS])
])

# TCCC_NEEDS_ONNX: protobuf-c, its compiler, and ONNX's schema.
AC_DEFUN([TCCC_NEEDS_ONNX], [
PKG_CHECK_MODULES([PROTOBUF_C], [libprotobuf-c >= 1.3])
AC_PATH_PROG([PROTOC_C], [protoc-c])
AS_IF([test "x$PROTOC_C" = x], [AC_MSG_ERROR([protoc-c not found (Debian: protobuf-c-compiler)])])
AC_ARG_WITH([onnx-proto], [AS_HELP_STRING([--with-onnx-proto=FILE], [schema of ONNX (default: the system's onnx.proto)])],
            [ONNX_PROTO=$withval], [ONNX_PROTO=/usr/include/onnx/onnx.proto])
AC_MSG_CHECKING([for onnx.proto])
AS_IF([test -r "$ONNX_PROTO"], [AC_MSG_RESULT([$ONNX_PROTO])],
      [AC_MSG_ERROR([$ONNX_PROTO not readable (Debian: libonnx-dev, or --with-onnx-proto=FILE)])])
AC_SUBST([ONNX_PROTO])
])
