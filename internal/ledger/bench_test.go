package ledger

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAppend writes one row to disk.
func BenchmarkAppend(b *testing.B) {
	l := create(b, openDir(b), "p-1", newMachine("a"))
	for b.Loop() {
		must(b, l.Created(newMachine("a")))
	}
}

// BenchmarkAppendParallel does the same from 64 goroutines, which share their appends.
func BenchmarkAppendParallel(b *testing.B) {
	l := create(b, openDir(b), "p-1", newMachine("a"))
	var done atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		all.Go(func() {
			for done.Add(1) <= int64(b.N) {
				if err := l.Created(newMachine("a")); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkRead reads the ledger of a pool that has had 1000 machines.
func BenchmarkRead(b *testing.B) {
	d := openDir(b)
	l := create(b, d, "p-1")
	rows := make([]Row, 1000)
	for i := range rows {
		rows[i] = newMachine(fmt.Sprint("m", i))
	}
	must(b, l.Intend(rows...))
	must(b, l.Created(rows...))
	must(b, l.Leased(rows...))
	for b.Loop() {
		read(b, d, "p-1")
	}
}
