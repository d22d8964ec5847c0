// Package unittest is a package as a user of gputrain writes it: a function that
// runs on nodes, and unit tests that run it on real ones. The nodes are
// containers, so that the tests cost nothing and need no account:
//
//	go test ./examples/unittest
//
// See primes_test.go: TestMain opens one pool, which all tests share.
package unittest

import (
	"context"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain"
)

// A Span is the numbers from From up to, but not with, To.
type Span struct{ From, To int }

// Primes returns the primes in a span, in order.
var Primes = gputrain.Func("primes", func(ctx context.Context, s Span) ([]int, error) {
	if s.From > s.To {
		return nil, fmt.Errorf("a span ends before it begins: %d to %d", s.From, s.To)
	}
	var found []int
	for n := max(s.From, 2); n < s.To; n++ {
		if isPrime(n) {
			found = append(found, n)
		}
	}
	return found, ctx.Err()
})

func isPrime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return true
}

// CountPrimes counts the primes below limit, on all nodes of a pool.
func CountPrimes(pool *gputrain.Compute, limit, parts int) (int, error) {
	var spans []Span
	for i := range parts {
		spans = append(spans, Span{From: limit * i / parts, To: limit * (i + 1) / parts})
	}
	found, err := Primes.Gather(pool, spans...)
	return len(slices.Concat(found...)), err
}
