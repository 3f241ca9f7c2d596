# TCCC_FLAG_OPTION(NAME, WHAT, FLAGS): --enable-NAME adds FLAGS to every compilation and link.
AC_DEFUN([TCCC_FLAG_OPTION], [
AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [build with $2])], [], [enable_$1=no])
AS_IF([test "x$enable_$1" = xyes], [TCCC_INSTRUMENT="${TCCC_INSTRUMENT:+$TCCC_INSTRUMENT }$3"])
AC_SUBST([TCCC_INSTRUMENT])
])
