package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func testData(t testing.TB) split {
	t.Helper()
	d, err := digits()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDigits(t *testing.T) {
	d := testData(t)
	if n := len(d.Train) + len(d.Validation) + len(d.Test); n != 1797 {
		t.Errorf("%d images, want 1797", n)
	}
	for name, part := range map[string][]example{"train": d.Train, "validation": d.Validation, "test": d.Test} {
		var seen [classes]int
		for _, e := range part {
			seen[e.Digit]++
		}
		if slices.Min(seen[:]) < 20 {
			t.Errorf("%s has too few of a digit to say anything about it: %v", name, seen)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	if _, err := parse([]byte("not gzip")); err == nil {
		t.Error("parse took what is not gzip")
	}
	if _, err := parse(digitsGz[:len(digitsGz)/2]); err == nil {
		t.Error("parse took half a file")
	}
}

// The gradient that backward computes is that of the loss, by finite differences.
func TestGradient(t *testing.T) {
	for _, hidden := range []int{0, 7} {
		n := newNetwork(hidden, rand.New(rand.NewPCG(1, 2)))
		batch := testData(t).Train[:5]
		for i := range batch {
			n.backward(&batch[i])
		}
		loss := func() float64 {
			_, mean := n.score(batch)
			return mean * float64(len(batch))
		}
		for li, l := range n.layers {
			for _, part := range []struct {
				name        string
				value, grad []float64
			}{{"w", l.w, l.dw}, {"b", l.b, l.db}} {
				for i := range part.value {
					const h = 1e-6
					was := part.value[i]
					part.value[i] = was + h
					up := loss()
					part.value[i] = was - h
					down := loss()
					part.value[i] = was
					want := (up - down) / (2 * h)
					if math.Abs(part.grad[i]-want) > 1e-6*max(1, math.Abs(want)) {
						t.Fatalf("hidden %d, layer %d, %s[%d]: gradient %g, by differences %g", hidden, li, part.name, i, part.grad[i], want)
					}
				}
			}
		}
	}
}

func TestFitReaches95(t *testing.T) {
	d := testData(t)
	for _, p := range []params{
		{Hidden: 0, LearningRate: 0.1, L2: 1e-4, Momentum: 0.9, Batch: 32, Epochs: 30, Seed: 1},
		{Hidden: 32, LearningRate: 0.1, L2: 1e-4, Momentum: 0.9, Batch: 32, Epochs: 30, Seed: 1},
	} {
		n, err := fit(t.Context(), p, d.Train)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := newNetwork(p.Hidden, rand.New(rand.NewPCG(p.Seed, 0))).score(d.Validation)
		accuracy, loss := n.score(d.Validation)
		t.Logf("%+v: accuracy %.4f (untrained %.4f), loss %.4f", p, accuracy, before, loss)
		if accuracy <= 0.95 {
			t.Errorf("%+v: validation accuracy %.4f, want more than 0.95", p, accuracy)
		}
		if before > 0.5 {
			t.Errorf("untrained accuracy %.4f: the data leaks", before)
		}
	}
}

func TestFitIsDeterministic(t *testing.T) {
	d := testData(t)
	p := params{Hidden: 8, LearningRate: 0.1, Momentum: 0.9, Batch: 32, Epochs: 2, Seed: 3}
	a, errA := fit(t.Context(), p, d.Train)
	b, errB := fit(t.Context(), p, d.Train)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.layers[0].w, b.layers[0].w) {
		t.Error("two runs with one seed differ")
	}
}

func TestFitStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fit(ctx, grid()[0], testData(t).Train); !errors.Is(err, context.Canceled) {
		t.Errorf("fit with a cancelled context: %v", err)
	}
}

func TestSoftmaxOfLargeScores(t *testing.T) {
	probs := make([]float64, 2)
	softmax(probs, []float64{1e6, 1e6})
	if probs[0] != 0.5 || probs[1] != 0.5 {
		t.Errorf("softmax overflows: %v", probs)
	}
}
