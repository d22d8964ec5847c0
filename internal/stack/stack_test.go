package stack

import "testing"

// BenchmarkDeep starts a goroutine that goes as deep as a small call, with and without a reserve.
func BenchmarkDeep(b *testing.B) {
	for name, first := range map[string]func(){"grows": func() {}, "reserved": Reserve} {
		b.Run(name, func(b *testing.B) {
			done := make(chan int)
			for b.Loop() {
				go func() {
					first()
					done <- deep(20)
				}()
				<-done
			}
		})
	}
}

//go:noinline
func deep(n int) int {
	var frame [24]int
	frame[n] = n
	if n > 0 {
		frame[0] = deep(n - 1)
	}
	return frame[0] + frame[n]
}
