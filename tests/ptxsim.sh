# tccc-ptxsim at the command line: listing, arguments, results in files, messages and exit statuses.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$tmp" || exit 99
cat >k.ptx <<'END'
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [x];
    ld.param.f32 %f1, [by];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r2, %r3, %r4, %r2;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra END;
    mad.wide.u32 %d2, %r2, 4, %d1;
    ld.global.f32 %f2, [%d2];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%d2], %f2;
END:
    ret;
}
END
expect_status 0 tccc-ptxsim k.ptx
grep -q '^scale(u64, f32, u32): 0 bytes of shared memory' out || fail "list: $(cat out)"

printf '\000\000\200\077\000\000\000\100\000\000\100\100' >x.bin # 1, 2, 3
expect_status 0 tccc-ptxsim k.ptx --launch scale:1:64 --arg @x.bin,type=f32,out=y.bin --arg 2.5 --arg 3 --counters
grep -q '^argument 0: f32\[3\]: 2.5 5 7.5' out || fail "result: $(cat out)"
grep -q '^global: 2 requests, 2 sectors' out || fail "counters: $(cat out)"
grep -q '^modelled on h100: 2[0-9]* cycles, .* bound by latency; [0-9]* registers, [0-9]* blocks an SM' out || fail "time: $(cat out)"
printf '\000\000\040\100\000\000\240\100\000\000\360\100' | cmp - y.bin || fail "y.bin"

# A wrong kernel: what, where, exit status 1.
expect_status 1 tccc-ptxsim k.ptx --launch scale:2:64 --arg @x.bin,type=f32 --arg 2.5 --arg 4
grep -q "^error: k.ptx: out-of-bounds: kernel scale, line 15, block (0,0,0), thread (3,0,0), address 0x[0-9a-f]*: read of 4 bytes, 0 bytes past the end of 'argument 0'" err ||
    fail "report: $(cat err)"
# Of a text that says what it was made of: the source's file and line, too.
sed -e 's/^    ld.global/    .loc 2 7 3, function_name LABEL, inlined_at 1 9 5\n&/' -e 's/^    st.global/    .loc 1 9 5\n&/' k.ptx >loc.ptx && printf '.file 1 "scale.cu"\n.file 2 "helper.cuh", 5, 6\n' >>loc.ptx
expect_status 1 tccc-ptxsim loc.ptx --launch scale:2:64 --arg @x.bin,type=f32 --arg 2.5 --arg 4
grep -q "^error: loc.ptx: out-of-bounds: kernel scale, line 16 (helper.cuh:7), block (0,0,0), thread (3,0,0), address" err || fail "report: $(cat err)"
expect_status 1 tccc-ptxsim k.ptx --launch scale:1:32 --arg new:128 --arg 2 --arg 32
grep -q '^error: k.ptx: uninitialised: kernel scale, line 15' err || fail "report: $(cat err)"
expect_status 0 tccc-ptxsim k.ptx --launch scale:1:32 --arg new:128 --arg 2 --arg 32 --check=none
sed 's/^.visible/.global .u32 a;\n.global .u32 a;\n&/' k.ptx >twice.ptx
expect_status 1 tccc-ptxsim twice.ptx
grep -q "^error: twice.ptx: line 5: variable 'a' is defined a second time" err || fail "$(cat err)"
sed 's/mul.f32/mul.foo.f32/' k.ptx >bad.ptx
expect_status 1 tccc-ptxsim bad.ptx
grep -q "^error: bad.ptx: line 16: instruction 'mul.foo.f32' is not supported: modifier '.foo'" err || fail "$(cat err)"

# message STATUS TEXT ARGUMENT...
message() {
    status=$1 text=$2
    shift 2
    expect_status "$status" tccc-ptxsim "$@"
    grep -q -e "$text" err || fail "tccc-ptxsim $*: $(cat err)"
}
message 2 'no file given'
message 2 'more than one file' k.ptx k.ptx
message 1 "cannot open 'none.ptx'" none.ptx
message 1 "has no kernel 'none'" k.ptx --launch none:1:1
message 2 'expected ENTRY:GRID:BLOCK' k.ptx --launch scale:1
message 2 'expected ENTRY:GRID:BLOCK' k.ptx --launch scale:1:1x1x1x1
message 2 'takes 3 parameters, got 1' k.ptx --launch scale:1:1 --arg 1
message 2 'expected a number of type f32' k.ptx --launch scale:1:1 --arg 1 --arg x --arg 1
message 2 'not a pointer' k.ptx --launch scale:1:1 --arg 1 --arg 1 --arg zeros:4
message 2 'expected a number of bytes' k.ptx --launch scale:1:1 --arg zeros:x --arg 1 --arg 1
message 2 "unknown type 'f99'" k.ptx --launch scale:1:1 --arg zeros:4,type=f99 --arg 1 --arg 1
message 1 'none.npy' k.ptx --launch scale:1:1 --arg @none.npy --arg 1 --arg 1
message 1 'out of range' k.ptx --launch scale:0:1 --arg 0 --arg 1 --arg 1
message 2 'requires --launch' k.ptx --arg 1
message 2 'expected all or none' k.ptx --check=some
