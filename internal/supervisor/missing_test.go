package supervisor

import "testing"

// A wrapper that is dead counts when it was not found twice in a row; one that
// does not seem to be at its task, on a busy node, only much later.
func TestMissing(t *testing.T) {
	n, task := &Node{}, &task{}
	look := func(seen, doubtful bool) bool {
		n.poll.looks++
		return !seen && n.missing(task, doubtful)
	}
	for range 3 {
		if look(false, false) {
			t.Error("the first time counts")
		}
		look(true, false)
	}
	if look(false, false); !look(false, false) {
		t.Error("the second time in a row does not count")
	}
	look(true, false)
	for i := 1; i < doubtfulLooks; i++ {
		if look(false, true) {
			t.Fatalf("doubtful for the %dth time, it counts", i)
		}
	}
	if !look(false, true) {
		t.Error("doubtful all the time, it never counts")
	}
	look(true, false)
	if look(false, true); !look(false, false) {
		t.Error("dead, after a doubtful look, does not count")
	}
}
