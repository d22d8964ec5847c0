package supervisor

import "testing"

// A dead wrapper counts when it was missing twice in a row. If it only does not seem to run its task, as on a busy
// node, it counts much later.
func TestMissing(t *testing.T) {
	looks, task := 0, &task{}
	look := func(seen, doubtful bool) bool {
		looks++
		return !seen && task.missing(looks, doubtful)
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
