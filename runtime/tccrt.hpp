/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccrt.hpp - running compiled models from C++17 (public): tccrt.h with owners, types and errors of C++. A header only; what it calls is tccrt.h's.
 *
 *   tccrt::model m("model.so");
 *   tccrt::session s(m);
 *   std::vector<float> x(3 * 224 * 224);
 *   auto out = s.run({tccrt::tensor::of(x, {1, 3, 224, 224})});
 *   const float *y = out[0].data<float>();          // the session's own, good until its next run
 *
 * Functions that may fail throw tccrt::error. Each has a form that takes a tccrt::status instead and does not throw, which alone is there without
 * exceptions (-fno-exceptions). A model may be shared by threads, a session is one thread's at a time; both are moved, not copied.
 */
#ifndef TCCRT_HPP
#define TCCRT_HPP

#include "tccrt.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif
#ifdef __cpp_exceptions
#include <stdexcept>
#endif

namespace tccrt {

/* How a call ended: a tcc_status and, of a failure, the message. */
struct status {
    int code = TCC_OK;
    std::string message;
    explicit operator bool() const noexcept { return code != TCC_OK; }      /* as std::error_code: true is a failure */
    void set(int c) { code = c; message = c == TCC_OK ? "" : tccrt_error(); }
};

#ifdef __cpp_exceptions
class error : public std::runtime_error {
  public:
    explicit error(status s) : std::runtime_error(s.message), code_(s.code) {}
    int code() const noexcept { return code_; }                            /* enum tcc_status */

  private:
    int code_;
};
inline void check(const status &s)
{
    if (s)
        throw error(s);
}
#endif

/* The element type of a C++ type; types of 16 bits and fewer without one in C++ are given by number (tensor's constructor). */
template <class T> struct dtype_of;
#define TCCRT_DTYPE(type, id) template <> struct dtype_of<type> : std::integral_constant<int, id> {};
TCCRT_DTYPE(float, TCC_F32)
TCCRT_DTYPE(double, TCC_F64)
TCCRT_DTYPE(bool, TCC_BOOL)
TCCRT_DTYPE(std::int8_t, TCC_I8)
TCCRT_DTYPE(std::uint8_t, TCC_U8)
TCCRT_DTYPE(std::int16_t, TCC_I16)
TCCRT_DTYPE(std::uint16_t, TCC_U16)
TCCRT_DTYPE(std::int32_t, TCC_I32)
TCCRT_DTYPE(std::uint32_t, TCC_U32)
TCCRT_DTYPE(std::int64_t, TCC_I64)
TCCRT_DTYPE(std::uint64_t, TCC_U64)
#undef TCCRT_DTYPE

/* A view of a dense row-major tensor, which somebody else owns. */
class tensor {
  public:
    tensor() noexcept : t_() {}
    explicit tensor(const tcc_tensor &t) noexcept : t_(t) {}
    /* rank at most TCC_MAX_RANK: what comes behind is left out, which a run then refuses. */
    tensor(void *data, int dtype, std::initializer_list<std::int64_t> dims) noexcept : tensor(data, dtype, dims.begin(), dims.size()) {}
    tensor(void *data, int dtype, const std::int64_t *dims, std::size_t rank) noexcept : t_()
    {
        t_.data = data;
        t_.dtype = dtype;
        for (std::size_t i = 0; i < rank && i < TCC_MAX_RANK; i++)
            t_.dims[t_.rank++] = dims[i];
    }
    /* Of a container's elements; a run does not write its inputs. */
    template <class C> static tensor of(C &c, std::initializer_list<std::int64_t> dims) noexcept
    {
        using T = std::remove_cv_t<std::remove_reference_t<decltype(*c.data())>>;
        return tensor(const_cast<T *>(c.data()), dtype_of<T>::value, dims);
    }
    int dtype() const noexcept { return t_.dtype; }
    int rank() const noexcept { return t_.rank; }
    std::int64_t dim(int i) const noexcept { return t_.dims[i]; }
    std::int64_t size() const noexcept
    {
        std::int64_t n = 1;
        for (int i = 0; i < t_.rank; i++)
            n *= t_.dims[i];
        return n;
    }
    void *raw() const noexcept { return t_.data; }
    /* nullptr: the elements have another type. */
    template <class T> T *data() const noexcept { return t_.dtype == dtype_of<std::remove_cv_t<T>>::value ? static_cast<T *>(t_.data) : nullptr; }
#if __cplusplus >= 202002L
    template <class T> std::span<T> values() const noexcept { return {data<T>(), data<T>() ? static_cast<std::size_t>(size()) : 0}; }
    std::span<const std::int64_t> dims() const noexcept { return {t_.dims, static_cast<std::size_t>(t_.rank)}; }
#endif
    const tcc_tensor &c() const noexcept { return t_; }

  private:
    tcc_tensor t_;
};
static_assert(sizeof(tensor) == sizeof(tcc_tensor), "arrays of tensor are arrays of tcc_tensor");

/* An artifact. */
class model {
  public:
    model() noexcept = default;
    model(const char *path, status &s) { s.set(tccrt_open(path, &m_)); }
    model(const tcc_model &linked, status &s) { s.set(tccrt_open_linked(&linked, &m_)); }
#ifdef __cpp_exceptions
    explicit model(const char *path) { status s; s.set(tccrt_open(path, &m_)); check(s); }
    explicit model(const std::string &path) : model(path.c_str()) {}
    explicit model(const tcc_model &linked) { status s; s.set(tccrt_open_linked(&linked, &m_)); check(s); }
#endif
    model(model &&o) noexcept : m_(std::exchange(o.m_, nullptr)) {}
    model &operator=(model &&o) noexcept { std::swap(m_, o.m_); return *this; }
    ~model() { tccrt_close(m_); }

    std::vector<std::string> entries() const
    {
        std::vector<std::string> names;
        for (int i = 0; i < tccrt_nentries(m_); i++)
            names.emplace_back(tccrt_entry_name(m_, i));
        return names;
    }
    /* What an entry point takes and gives; none of an entry point that is not there. entry nullptr: the first. */
    std::vector<tccrt_value_info> inputs(const char *entry = nullptr) const { return list(entry, tccrt_ninputs, tccrt_input); }
    std::vector<tccrt_value_info> outputs(const char *entry = nullptr) const { return list(entry, tccrt_noutputs, tccrt_output); }
    tccrt_model *c() const noexcept { return m_; }

  private:
    std::vector<tccrt_value_info> list(const char *entry, int (*count)(const tccrt_model *, const char *),
                                       int (*get)(const tccrt_model *, const char *, int, tccrt_value_info *)) const
    {
        entry = entry ? entry : tccrt_entry_name(m_, 0);
        int n = count(m_, entry);
        std::vector<tccrt_value_info> v(n > 0 ? n : 0);
        for (int i = 0; i < n; i++)
            get(m_, entry, i, &v[i]);
        return v;
    }
    tccrt_model *m_ = nullptr;
};

/* What a run needs. Freed before its model. */
class session {
  public:
    session() noexcept = default;
    session(model &m, const tccrt_options &o, status &s) : m_(m.c()) { s.set(tccrt_session_new(m_, &o, &s_)); }
#ifdef __cpp_exceptions
    explicit session(model &m, const tccrt_options &o = {}) : m_(m.c()) { status s; s.set(tccrt_session_new(m_, &o, &s_)); check(s); }
#endif
    session(session &&o) noexcept : m_(o.m_), s_(std::exchange(o.s_, nullptr)) {}
    session &operator=(session &&o) noexcept { m_ = o.m_; std::swap(s_, o.s_); return *this; }
    ~session() { tccrt_session_free(s_); }

    /* Runs an entry point; outputs with memory (raw() not nullptr) are written there, the others lie in the session's. */
    status run(const char *entry, const tensor *in, std::size_t nin, tensor *out, std::size_t nout)
    {
        status s;
        s.set(tccrt_run(s_, entry, static_cast<int>(nin), reinterpret_cast<const tcc_tensor *>(in), static_cast<int>(nout),
                        reinterpret_cast<tcc_tensor *>(out)));
        return s;
    }
    status checkpoint_save(const char *path, int flags = 0) { status s; s.set(tccrt_checkpoint_save(s_, path, flags, 0, nullptr)); return s; }
    status checkpoint_load(const char *path, int flags = 0) { status s; s.set(tccrt_checkpoint_load(s_, path, flags)); return s; }
    status state(const char *name, tensor &out)      /* the session's own memory (tccrt_state_get()) */
    {
        status s;
        tcc_tensor t = {};
        s.set(tccrt_state_get(s_, name, &t));
        out = tensor(t);
        return s;
    }
#ifdef __cpp_exceptions
    /* All outputs of an entry point (nullptr: the first), in the session's memory: good until its next run. */
    std::vector<tensor> run(std::initializer_list<tensor> in, const char *entry = nullptr) { return run(in.begin(), in.size(), entry); }
    std::vector<tensor> run(const std::vector<tensor> &in, const char *entry = nullptr) { return run(in.data(), in.size(), entry); }
#endif
    tccrt_session *c() const noexcept { return s_; }

  private:
#ifdef __cpp_exceptions
    std::vector<tensor> run(const tensor *in, std::size_t nin, const char *entry)
    {
        int n = tccrt_noutputs(m_, entry ? entry : tccrt_entry_name(m_, 0));
        std::vector<tensor> out(n > 0 ? n : 0);
        check(run(entry, in, nin, out.data(), out.size()));
        return out;
    }
#endif
    tccrt_model *m_ = nullptr;
    tccrt_session *s_ = nullptr;
};

} // namespace tccrt
#endif
