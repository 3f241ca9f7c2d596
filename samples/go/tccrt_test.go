// SPDX-License-Identifier: Apache-2.0

package tccrt

import (
	"errors"
	"os"
	"sync"
	"testing"
)

// The artifact of samples/digits that TCCRT_TEST_ARTIFACT names.
func open(t *testing.T) (*Model, *Session) {
	t.Helper()
	path := os.Getenv("TCCRT_TEST_ARTIFACT")
	if path == "" {
		t.Skip("TCCRT_TEST_ARTIFACT is not set")
	}
	model, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	session, err := model.NewSession(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return model, session
}

func status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return -1
}

func TestRuns(t *testing.T) {
	model, session := open(t)
	if e := model.Entries(); len(e) != 1 || e[0] != "main" {
		t.Fatalf("entries %v", e)
	}
	in, err := model.Inputs("main")
	if err != nil || len(in) != 1 || in[0].Name != "picture" || in[0].Type != Float32 || len(in[0].Dims) != 4 || in[0].Dims[0] != -1 || in[0].Symbols[0] != "N" || in[0].Dims[3] != 28 {
		t.Fatalf("inputs %+v, %v", in, err)
	}
	for _, n := range []int{1, 3, 2} {
		x, err := Of(make([]float32, n*784), n, 1, 28, 28)
		if err != nil {
			t.Fatal(err)
		}
		out, err := session.Run("main", x)
		if err != nil {
			t.Fatal(err)
		}
		scores, err := Values[float32](out[0])
		if d := out[0].Dims(); err != nil || len(d) != 2 || d[0] != n || d[1] != 10 || len(scores) != n*10 {
			t.Fatalf("dims %v, %d scores, %v", d, len(scores), err)
		}
		sum := float32(0)
		for _, p := range scores {
			sum += p
		}
		if sum < 0.999*float32(n) || sum > 1.001*float32(n) {
			t.Fatalf("probabilities add up to %g", sum)
		}
		if _, err := Values[float64](out[0]); status(err) != StatusUsage {
			t.Fatalf("floats as doubles: %v", err)
		}
	}
}

// Results are of Go's memory: the next run does not change them. Goroutines take turns.
func TestGoroutines(t *testing.T) {
	_, session := open(t)
	var all sync.WaitGroup
	results := make([][]float32, 8)
	for g := range results {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			pixels := make([]float32, 784)
			for i := range pixels {
				pixels[i] = float32(g%2) * float32(i%7) / 7
			}
			x, _ := Of(pixels, 1, 1, 28, 28)
			for k := 0; k < 20; k++ {
				out, err := session.Run("main", x)
				if err != nil {
					t.Error(err)
					return
				}
				results[g], _ = Values[float32](out[0])
			}
		}(g)
	}
	all.Wait()
	for g := 2; g < len(results); g++ {
		for i := range results[g] {
			if results[g][i] != results[g%2][i] {
				t.Fatalf("goroutine %d, score %d: %g, %g", g, i, results[g][i], results[g%2][i])
			}
		}
	}
	if results[0][0] == results[1][0] {
		t.Fatal("two pictures, one answer")
	}
}

func TestFails(t *testing.T) {
	if _, err := Open("/nowhere.so"); status(err) != StatusEnvironment {
		t.Errorf("no file: %v", err)
	}
	if _, err := Of(make([]float32, 784), 28, 27); status(err) != StatusUsage {
		t.Errorf("dims: %v", err)
	}
	if _, err := Of([]int64{}, 1<<62, 1<<62); status(err) != StatusUsage {
		t.Errorf("large dims: %v", err)
	}
	if x, err := Of([]int64{}, 0, 3); err != nil || x.Type() != Int64 {
		t.Errorf("no elements: %v", err)
	}
	model, session := open(t)
	flat, _ := Of(make([]float32, 784), 784)
	if _, err := session.Run("main", flat); status(err) != StatusInput {
		t.Errorf("rank: %v", err)
	}
	doubles, _ := Of(make([]float64, 784), 1, 1, 28, 28)
	if _, err := session.Run("main", doubles); status(err) != StatusInput {
		t.Errorf("type: %v", err)
	}
	if _, err := session.Run("main"); err == nil {
		t.Error("no input")
	}
	if _, err := session.Run("nothing"); err == nil {
		t.Error("no entry point")
	}
	if _, err := model.Inputs("nothing"); status(err) != StatusInput {
		t.Errorf("no entry point: %v", err)
	}
	if _, err := model.NewSession(Options{Device: "toaster"}); err == nil {
		t.Error("no such device")
	}
	if err := model.Close(); status(err) != StatusUsage {
		t.Errorf("closed with a session: %v", err)
	}
	session.Close()
	if _, err := session.Run("main", flat); status(err) != StatusUsage {
		t.Errorf("closed: %v", err)
	}
	session.Close()
}
