package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
)

// digitsGz is described in DATA.md. It is part of the program, and so it is on
// every node that the program is on.
//
//go:embed digits.csv.gz
var digitsGz []byte

const (
	pixels  = 64 // 8 by 8
	classes = 10
)

// An example is one image and the digit that it shows.
type example struct {
	X     [pixels]float64 // from 0 to 1
	Digit int
}

// A split is the data in three parts. A model learns from Train; the sweep
// chooses by Validation; Test is looked at once, at the very end.
type split struct {
	Train, Validation, Test []example
}

// digits returns the data. The split is the same on every node.
var digits = sync.OnceValues(func() (split, error) {
	all, err := parse(digitsGz)
	if err != nil {
		return split{}, fmt.Errorf("digits.csv.gz: %w", err)
	}
	rng := rand.New(rand.NewPCG(1998, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	a, b := len(all)*60/100, len(all)*80/100
	return split{Train: all[:a:a], Validation: all[a:b:b], Test: all[b:]}, nil
})

func parse(gz []byte) ([]example, error) {
	r, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	out := make([]example, len(lines))
	for i, line := range lines {
		if len(line) != pixels+1 {
			return nil, fmt.Errorf("line %d has %d numbers, not %d", i+1, len(line), pixels+1)
		}
		for j, s := range line {
			n, err := strconv.Atoi(s)
			switch {
			case err != nil:
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			case j < pixels && n >= 0 && n <= 16:
				out[i].X[j] = float64(n) / 16
			case j == pixels && n >= 0 && n < classes:
				out[i].Digit = n
			default:
				return nil, fmt.Errorf("line %d: %d is out of range", i+1, n)
			}
		}
	}
	return out, nil
}
