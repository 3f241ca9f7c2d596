# SPDX-License-Identifier: Apache-2.0
# runtime/tccrt.hpp: the sample of C++, as C++17 and C++20, without a warning; what its classes do, with exceptions and without.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
command -v "${CXX:=c++}" >/dev/null 2>&1 || skip "no C++ compiler"
[ -z "${INSTRUMENT:-}" ] || skip "an instrumented build"
flags="-Wall -Wextra -Werror -I$top_srcdir/runtime"
libs="$top_builddir/libtccrt.a -lm -lpthread -ldl"
digits=$top_srcdir/samples/digits

expect_status 0 tccc "$digits/digits.onnx" -o "$tmp/digits.so"
for standard in c++17 c++20; do
    # shellcheck disable=SC2086  # flags
    $CXX -std=$standard $flags "$top_srcdir/samples/cplusplus/classify.cpp" $libs -o "$tmp/classify" || fail "$standard"
    expect_status 0 "$tmp/classify" "$tmp/digits.so" "$digits/digit-3.pgm"
    grep -q '^label: 3$' "$tmp/out" || fail "$(cat "$tmp/out")"
done
expect_status 3 "$tmp/classify" "$tmp/none.so" "$digits/digit-3.pgm"
grep -q '^error: .*none.so' "$tmp/err" || fail "$(cat "$tmp/err")"

cat >"$tmp/both.cpp" <<'END'
#include <tccrt.hpp>
#include <cstdio>
#define CHECK(x) do { if (!(x)) { std::fprintf(stderr, "line %d: %s\n", __LINE__, #x); return 1; } } while (0)
int main(int, char **argv)
{
    tccrt::status s;
    tccrt::model none("/nowhere.so", s), m(argv[1], s);
    CHECK(!s && m.c() && !none.c());
    CHECK(m.entries().size() == 1 && m.inputs().size() == 1 && m.outputs().size() == 1 && m.inputs("nothing").empty());
    tccrt_options options = {};
    options.threads = 1;
    tccrt::session one(m, options, s), two(std::move(one));
    CHECK(!s && two.c() && !one.c());
    std::vector<float> x(784), y(10);
    tccrt::tensor in = tccrt::tensor::of(x, {1, 1, 28, 28}), out = tccrt::tensor::of(y, {1, 10}), narrow = tccrt::tensor::of(x, {784});
    CHECK(in.size() == 784 && in.rank() == 4 && in.data<float>() == x.data() && !in.data<double>());
    CHECK(!two.run(nullptr, &in, 1, &out, 1) && y[0] != 0);
    s = two.run(nullptr, &narrow, 1, &out, 1);
    CHECK(s && s.code == TCC_EINPUT && !s.message.empty());
#ifdef __cpp_exceptions
    std::vector<tccrt::tensor> outs = two.run({in});
    CHECK(outs.size() == 1 && outs[0].data<float>()[3] == y[3] && outs[0].dim(1) == 10);
    int code = 0;
    try { two.run({narrow}); } catch (const tccrt::error &e) { code = e.code(); }
    CHECK(code == TCC_EINPUT);
    try { tccrt::model("/nowhere.so"); } catch (const tccrt::error &e) { code = e.code(); }
    CHECK(code == TCC_EENV);
#if __cplusplus >= 202002L
    CHECK(outs[0].values<float>().size() == 10 && outs[0].values<int>().empty() && outs[0].dims()[0] == 1);
#endif
#endif
    return 0;
}
END
for options in "-std=c++17" "-std=c++20" "-std=c++17 -fno-exceptions"; do
    # shellcheck disable=SC2086  # flags
    $CXX $options $flags "$tmp/both.cpp" $libs -o "$tmp/both" || fail "$options"
    expect_status 0 "$tmp/both" "$tmp/digits.so"
done
