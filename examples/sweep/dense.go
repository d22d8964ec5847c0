package main

import (
	"math"
	"math/rand/v2"
)

// A dense layer computes out = w·x + b.
type dense struct {
	w, b       []float64 // w is row after row, one for each output
	dw, db     []float64 // gradients, summed over a batch
	vw, vb     []float64 // velocities, for momentum
	out, delta []float64 // the last output, and the loss's gradient with respect to it
}

// newDense returns a layer with random weights, scaled so that signals keep
// their size from layer to layer (He et al., 2015).
func newDense(in, out int, rng *rand.Rand) *dense {
	vec := func(n int) []float64 { return make([]float64, n) }
	l := &dense{
		w: vec(in * out), dw: vec(in * out), vw: vec(in * out),
		b: vec(out), db: vec(out), vb: vec(out),
		out: vec(out), delta: vec(out),
	}
	scale := math.Sqrt(2 / float64(in))
	for i := range l.w {
		l.w[i] = rng.NormFloat64() * scale
	}
	return l
}

func (l *dense) forward(x []float64) {
	for i := range l.out {
		row := l.w[i*len(x):][:len(x)]
		sum := l.b[i]
		for j, v := range x {
			sum += row[j] * v
		}
		l.out[i] = sum
	}
}

// backward adds the gradients for input x to the layer's, from its delta. It
// writes the loss's gradient with respect to x to below, unless that is nil.
func (l *dense) backward(x, below []float64) {
	clear(below)
	for i, d := range l.delta {
		l.db[i] += d
		if d == 0 {
			continue
		}
		row, grad := l.w[i*len(x):][:len(x)], l.dw[i*len(x):][:len(x)]
		for j, v := range x {
			grad[j] += d * v
		}
		for j := range below {
			below[j] += d * row[j]
		}
	}
}

// step moves the parameters against the mean gradient of a batch, and clears
// it. Weight decay is for the weights only: it would pull biases off the data.
func (l *dense) step(rate, momentum, l2 float64, batch int) {
	n := float64(batch)
	for i, g := range l.dw {
		l.vw[i] = momentum*l.vw[i] - rate*(g/n+l2*l.w[i])
		l.w[i] += l.vw[i]
	}
	for i, g := range l.db {
		l.vb[i] = momentum*l.vb[i] - rate*g/n
		l.b[i] += l.vb[i]
	}
	clear(l.dw)
	clear(l.db)
}
