// SPDX-License-Identifier: Apache-2.0

package tccrt

import "unsafe"

// Type is an element type, by abi.h's number.
type Type int32

// Element types that Go has.
const (
	Float32  Type = 1
	Uint8    Type = 2
	Int8     Type = 3
	Uint16   Type = 4
	Int16    Type = 5
	Int32    Type = 6
	Int64    Type = 7
	Bool     Type = 9
	Float16  Type = 10 // its bits: Tensor.Bytes
	Float64  Type = 11
	Uint32   Type = 12
	Uint64   Type = 13
	BFloat16 Type = 16 // its bits: Tensor.Bytes
)

var types = map[Type]struct {
	name string
	size int
}{
	Float32: {"f32", 4}, Uint8: {"u8", 1}, Int8: {"i8", 1}, Uint16: {"u16", 2}, Int16: {"i16", 2}, Int32: {"i32", 4}, Int64: {"i64", 8}, Bool: {"bool", 1},
	Float16: {"f16", 2}, Float64: {"f64", 8}, Uint32: {"u32", 4}, Uint64: {"u64", 8}, BFloat16: {"bf16", 2},
}

// String is the type's name in tccc: "f32".
func (t Type) String() string {
	if known, ok := types[t]; ok {
		return known.name
	}
	return "?"
}

// Bytes of an element; 0: a type that has no form here.
func sizeOf(t Type) int { return types[t].size }

// Element are the Go types that elements may have.
type Element interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool
}

func typeOf[T Element]() Type {
	switch any(*new(T)).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	default:
		return Bool
	}
}

// MaxRank is the most axes that a tensor may have: TCC_MAX_RANK of abi.h.
const MaxRank = 12

// Tensor is a dense row-major tensor in Go's memory.
type Tensor struct {
	kind  Type
	dims  []int
	bytes []byte
}

// Of is the tensor of these values, which it shares. The dims must have as many elements as there are values.
func Of[T Element](values []T, dims ...int) (Tensor, error) {
	if len(dims) > MaxRank {
		return Tensor{}, usage("a tensor of %d axes; at most %d are supported", len(dims), MaxRank)
	}
	n := 1
	for _, d := range dims {
		if d < 0 || (d > 0 && n > len(values)/d) {
			return Tensor{}, usage("dims %v are not those of %d values", dims, len(values))
		}
		n *= d
	}
	if n != len(values) {
		return Tensor{}, usage("dims %v have %d elements, there are %d values", dims, n, len(values))
	}
	t := Tensor{kind: typeOf[T](), dims: append([]int{}, dims...)}
	if n > 0 {
		t.bytes = unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), n*int(unsafe.Sizeof(values[0])))
	}
	return t, nil
}

// Values are the tensor's elements, shared with it. Another type than the tensor's is an error.
func Values[T Element](t Tensor) ([]T, error) {
	if t.kind != typeOf[T]() {
		return nil, usage("the tensor is of %s, %s was asked for", t.kind, typeOf[T]())
	}
	if len(t.bytes) == 0 {
		return nil, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&t.bytes[0])), len(t.bytes)/sizeOf(t.kind)), nil
}

// Type is the type of the elements.
func (t Tensor) Type() Type { return t.kind }

// Dims are the sizes of the axes.
func (t Tensor) Dims() []int { return append([]int{}, t.dims...) }

// Bytes are the elements as they lie in memory; of types that Go does not have.
func (t Tensor) Bytes() []byte { return t.bytes }
