// SPDX-License-Identifier: Apache-2.0

// Classifies a picture with the network of samples/digits: go run ./examples/classify digits.so digit-3.pgm
package main

import (
	"bytes"
	"fmt"
	"os"

	"tccrt"
)

// The pixels of a binary PGM file without comments, from 0 to 1.
func readPicture(path string) ([]float32, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) < 784 || !bytes.HasPrefix(data, []byte("P5")) {
		return nil, fmt.Errorf("%s: expected a binary PGM picture of 28 x 28", path)
	}
	pixels := make([]float32, 784)
	for i, b := range data[len(data)-784:] {
		pixels[i] = float32(b) / 255
	}
	return pixels, nil
}

func classify(artifact, picture string) (int, error) {
	model, err := tccrt.Open(artifact)
	if err != nil {
		return 0, err
	}
	defer model.Close()
	session, err := model.NewSession(tccrt.Options{})
	if err != nil {
		return 0, err
	}
	defer session.Close()
	pixels, err := readPicture(picture)
	if err != nil {
		return 0, err
	}
	x, err := tccrt.Of(pixels, 1, 1, 28, 28)
	if err != nil {
		return 0, err
	}
	outputs, err := session.Run("main", x)
	if err != nil {
		return 0, err
	}
	scores, err := tccrt.Values[float32](outputs[0])
	if err != nil {
		return 0, err
	}
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return best, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: classify digits.so PICTURE.pgm")
		os.Exit(2)
	}
	label, err := classify(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "classify:", err)
		os.Exit(1)
	}
	fmt.Printf("label: %d\n", label)
}
