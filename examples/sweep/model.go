package main

import (
	"context"
	"math"
	"math/rand/v2"
)

// params is one setting of the sweep.
type params struct {
	Hidden       int // units of the hidden layer; 0 is softmax regression
	LearningRate float64
	L2           float64 // weight decay
	Momentum     float64
	Batch        int
	Epochs       int
	Seed         uint64
}

// A network is one or two dense layers, with a ReLU between them and a softmax
// at the end.
type network struct {
	layers []*dense
	probs  []float64 // of the last forward pass
}

// newNetwork returns a network with random weights.
func newNetwork(hidden int, rng *rand.Rand) *network {
	n := &network{probs: make([]float64, classes)}
	if hidden > 0 {
		n.layers = append(n.layers, newDense(pixels, hidden, rng), newDense(hidden, classes, rng))
	} else {
		n.layers = append(n.layers, newDense(pixels, classes, rng))
	}
	return n
}

// fit trains a new network on the examples by minibatch gradient descent with
// momentum. The same settings and examples make the same network.
func fit(ctx context.Context, p params, train []example) (*network, error) {
	rng := rand.New(rand.NewPCG(p.Seed, 0))
	n := newNetwork(p.Hidden, rng)
	for epoch := range p.Epochs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rate := p.LearningRate * (1 + math.Cos(math.Pi*float64(epoch)/float64(p.Epochs))) / 2
		order := rng.Perm(len(train))
		for len(order) > 0 {
			size := min(p.Batch, len(order))
			for _, i := range order[:size] {
				n.backward(&train[i])
			}
			for _, l := range n.layers {
				l.step(rate, p.Momentum, p.L2, size)
			}
			order = order[size:]
		}
	}
	return n, nil
}

// score returns the share of the examples that the network gets right, and the
// mean cross-entropy.
func (n *network) score(examples []example) (accuracy, loss float64) {
	for i := range examples {
		e := &examples[i]
		n.forward(e)
		loss -= math.Log(max(n.probs[e.Digit], 1e-300))
		if argmax(n.probs) == e.Digit {
			accuracy++
		}
	}
	total := float64(len(examples))
	return accuracy / total, loss / total
}

// forward computes the probability of each digit.
func (n *network) forward(e *example) {
	x := e.X[:]
	for i, l := range n.layers {
		l.forward(x)
		x = l.out
		if i < len(n.layers)-1 {
			relu(x)
		}
	}
	softmax(n.probs, x)
}

// backward adds the gradient of one example's cross-entropy to that of its batch.
func (n *network) backward(e *example) {
	n.forward(e)
	last := n.layers[len(n.layers)-1]
	copy(last.delta, n.probs) // the gradient of softmax and cross-entropy together
	last.delta[e.Digit]--
	for i := len(n.layers) - 1; i > 0; i-- {
		below := n.layers[i-1]
		n.layers[i].backward(below.out, below.delta)
		for j, y := range below.out {
			if y == 0 { // the ReLU was shut
				below.delta[j] = 0
			}
		}
	}
	n.layers[0].backward(e.X[:], nil)
}

func relu(x []float64) {
	for i, v := range x {
		x[i] = max(v, 0)
	}
}

// softmax writes the probabilities that belong to scores. The largest score is
// taken off first, so that no exponential overflows.
func softmax(probs, scores []float64) {
	top, sum := scores[argmax(scores)], 0.0
	for i, s := range scores {
		probs[i] = math.Exp(s - top)
		sum += probs[i]
	}
	for i := range probs {
		probs[i] /= sum
	}
}

func argmax(x []float64) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
