// SPDX-License-Identifier: Apache-2.0

// Package tccrt runs models that tccc has compiled.
//
//	model, err := tccrt.Open("model.so")
//	session, err := model.NewSession(tccrt.Options{})
//	x, err := tccrt.Of(pixels, 1, 1, 28, 28)
//	outputs, err := session.Run("main", x)
//	scores, err := tccrt.Values[float32](outputs[0])
//
// It is a thin layer over tccrt.h, by cgo, and links the runtime of an installed tccc (pkg-config tccrt). What goes in and comes out is copied: C may not keep
// pointers to Go's memory, and a result of the session's own memory would be overwritten by its next run.
package tccrt

/*
#cgo pkg-config: tccrt
#include <stdlib.h>
#include <string.h>
#include <tccrt.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Statuses of an Error: enum tcc_status of abi.h.
const (
	StatusInput       = C.TCC_EINPUT // a tensor, shape, name or value is wrong
	StatusUsage       = C.TCC_EUSAGE // a call that the interface does not allow
	StatusEnvironment = C.TCC_EENV   // no such file, memory, device
	StatusBug         = C.TCC_EBUG   // a bug of tccc's
	StatusIndex       = C.TCC_EINDEX // an index of the data lies outside its axis
)

// Error is a call's status and its message.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }

func usage(format string, args ...any) error {
	return &Error{StatusUsage, fmt.Sprintf(format, args...)}
}

// call runs f on one thread, since messages are the thread's.
func call(f func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := f(); status != C.TCC_OK {
		return &Error{int(status), C.GoString(C.tccrt_error())}
	}
	return nil
}

// Model is an artifact. Goroutines may share it.
type Model struct {
	mutex    sync.Mutex
	raw      *C.struct_tccrt_model
	sessions int
}

// Open opens an artifact, a .so that tccc wrote.
func Open(path string) (*Model, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	m := &Model{}
	if err := call(func() C.int { return C.tccrt_open(name, &m.raw) }); err != nil {
		return nil, err
	}
	return m, nil
}

var errClosed = &Error{StatusUsage, "the model or session is closed"}

// Close gives the model back. Its sessions must be closed before. Closing twice is fine.
func (m *Model) Close() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.sessions > 0 {
		return usage("the model has %d sessions that are not closed", m.sessions)
	}
	if m.raw != nil {
		C.tccrt_close(m.raw)
		m.raw = nil
	}
	return nil
}

// Entries gives the names of the entry points; inference has one, "main".
func (m *Model) Entries() []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.raw == nil {
		return nil
	}
	names := make([]string, int(C.tccrt_nentries(m.raw)))
	for i := range names {
		names[i] = C.GoString(C.tccrt_entry_name(m.raw, C.int(i)))
	}
	return names
}

// Value describes an input or output. Dims is nil where the rank is not known; a size that is not fixed is -1, and Symbols has its name there.
type Value struct {
	Name    string
	Type    Type
	Dims    []int
	Symbols []string
}

// Inputs describes what an entry point takes.
func (m *Model) Inputs(entry string) ([]Value, error) { return m.describe(entry, true) }

// Outputs describes what an entry point gives.
func (m *Model) Outputs(entry string) ([]Value, error) { return m.describe(entry, false) }

func (m *Model) describe(entry string, inputs bool) ([]Value, error) {
	name := C.CString(entry)
	defer C.free(unsafe.Pointer(name))
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.raw == nil {
		return nil, errClosed
	}
	n := C.tccrt_noutputs(m.raw, name)
	if inputs {
		n = C.tccrt_ninputs(m.raw, name)
	}
	if n < 0 {
		return nil, &Error{StatusInput, fmt.Sprintf("the model has no entry point '%s'", entry)}
	}
	values := make([]Value, int(n))
	for i := range values {
		var info C.struct_tccrt_value_info
		err := call(func() C.int {
			if inputs {
				return C.tccrt_input(m.raw, name, C.int(i), &info)
			}
			return C.tccrt_output(m.raw, name, C.int(i), &info)
		})
		if err != nil {
			return nil, err
		}
		v := Value{Name: C.GoString(info.name), Type: Type(info.dtype)}
		for k := 0; k < int(info.rank); k++ {
			symbol := ""
			if info.dims[k] < 0 && info.dim_names[k] != nil {
				symbol = C.GoString(info.dim_names[k])
			}
			v.Dims, v.Symbols = append(v.Dims, int(info.dims[k])), append(v.Symbols, symbol)
		}
		values[i] = v
	}
	return values, nil
}

// Options of a session. The zero value is the default.
type Options struct {
	Threads int    // 0: the physical cores that the process may use
	Seed    uint64 // of random ops
	Device  string // "cpu", "cuda:K", "sim"...; "": $TCCC_DEVICE, else what the artifact was made for
}

// Session is what a run needs. Goroutines may share it: their runs take turns. For runs at once, give each goroutine a session of its own.
type Session struct {
	mutex   sync.Mutex
	raw     *C.struct_tccrt_session
	model   *Model
	memory  unsafe.Pointer // inputs' elements, grown as needed
	size    uintptr
	tensors *C.struct_tcc_tensor
	count   int
}

// NewSession makes a session of the model.
func (m *Model) NewSession(o Options) (*Session, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.raw == nil {
		return nil, errClosed
	}
	options := (*C.struct_tccrt_options)(C.calloc(1, C.sizeof_struct_tccrt_options))
	if options == nil {
		return nil, &Error{StatusEnvironment, "no memory for a session"}
	}
	defer C.free(unsafe.Pointer(options))
	options.threads, options.seed = C.int(o.Threads), C.uint64_t(o.Seed)
	if o.Device != "" {
		options.device = C.CString(o.Device)
		defer C.free(unsafe.Pointer(options.device))
	}
	s := &Session{model: m}
	if err := call(func() C.int { return C.tccrt_session_new(m.raw, options, &s.raw) }); err != nil {
		return nil, err
	}
	m.sessions++
	return s, nil
}

// Close gives the session back. Closing twice is fine.
func (s *Session) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.raw == nil {
		return
	}
	C.tccrt_session_free(s.raw)
	C.free(s.memory)
	C.free(unsafe.Pointer(s.tensors))
	s.raw, s.memory, s.tensors, s.size, s.count = nil, nil, nil, 0, 0
	s.model.mutex.Lock()
	s.model.sessions--
	s.model.mutex.Unlock()
}

const alignment = 64

// reserve makes room for n tensors, and for the elements of the inputs.
func (s *Session) reserve(n int, bytes uintptr) error {
	if n > s.count {
		p := C.realloc(unsafe.Pointer(s.tensors), C.size_t(n)*C.sizeof_struct_tcc_tensor)
		if p == nil {
			return &Error{StatusEnvironment, "no memory for tensors"}
		}
		s.tensors, s.count = (*C.struct_tcc_tensor)(p), n
	}
	if bytes > s.size {
		C.free(s.memory)
		s.memory, s.size = nil, 0
		if p := C.aligned_alloc(alignment, C.size_t(bytes)); p != nil {
			s.memory, s.size = p, bytes
		} else {
			return &Error{StatusEnvironment, "no memory for the inputs"}
		}
	}
	return nil
}

// Run runs an entry point. Types, ranks and sizes of the inputs are checked. The outputs are Go's.
func (s *Session) Run(entry string, inputs ...Tensor) ([]Tensor, error) {
	name := C.CString(entry)
	defer C.free(unsafe.Pointer(name))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.raw == nil {
		return nil, errClosed
	}
	nout := int(C.tccrt_noutputs(s.model.raw, name))
	if nout < 0 {
		nout = 0 // no such entry point: the run says so
	}
	var bytes uintptr
	for _, t := range inputs {
		bytes += (uintptr(len(t.bytes)) + alignment - 1) / alignment * alignment
	}
	if err := s.reserve(len(inputs)+nout+1, bytes+alignment); err != nil {
		return nil, err
	}
	tensors, offset := unsafe.Slice(s.tensors, len(inputs)+nout+1), uintptr(0)
	for i := range tensors {
		tensors[i] = C.struct_tcc_tensor{}
	}
	for i, t := range inputs {
		c := &tensors[i]
		c.data, c.dtype, c.rank = unsafe.Add(s.memory, offset), C.int32_t(t.kind), C.int32_t(len(t.dims))
		copy(unsafe.Slice((*byte)(c.data), len(t.bytes)), t.bytes)
		for k, d := range t.dims {
			c.dims[k] = C.int64_t(d)
		}
		offset += (uintptr(len(t.bytes)) + alignment - 1) / alignment * alignment
	}
	out := &tensors[len(inputs)]
	err := call(func() C.int { return C.tccrt_run(s.raw, name, C.int(len(inputs)), &tensors[0], C.int(nout), out) })
	if err != nil {
		return nil, err
	}
	results := make([]Tensor, nout)
	for i := range results {
		c := &tensors[len(inputs)+i]
		t := Tensor{kind: Type(c.dtype), dims: make([]int, int(c.rank))}
		n := sizeOf(t.kind)
		if n == 0 {
			return nil, usage("output %d is of type %d, which has no form here", i, int(t.kind))
		}
		for k := range t.dims {
			t.dims[k] = int(c.dims[k])
			n *= t.dims[k]
		}
		t.bytes = make([]byte, n)
		if n > 0 {
			copy(t.bytes, unsafe.Slice((*byte)(c.data), n))
		}
		results[i] = t
	}
	return results, nil
}
