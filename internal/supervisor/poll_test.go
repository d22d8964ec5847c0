package supervisor

import "testing"

// A task whose output is waited for is asked at once, and often until the waiting is over.
func TestHasten(t *testing.T) {
	n := &Node{tasks: map[string]*task{"a": newTask("a"), "b": newTask("b")}, attention: make(chan struct{}, 1)}
	for _, task := range n.tasks {
		task.begin(true)
	}
	n.tasks["b"].live = true
	if qs, tasks, urgent, most := n.questions(); len(qs) != 1 || tasks != 2 || urgent || most != livePause {
		t.Errorf("before: %d questions about %d, urgent=%v, most %v", len(qs), tasks, urgent, most)
	}
	n.Hasten("unknown")()
	stop := n.Hasten("a")
	select {
	case <-n.attention:
	default:
		t.Error("the poller is not told")
	}
	if _, _, urgent, most := n.questions(); !urgent || most != firstPause {
		t.Errorf("hastened: urgent=%v, most %v", urgent, most)
	}
	n.tasks["a"].asked(maxBudget)
	if _, _, urgent, most := n.questions(); urgent || most != firstPause {
		t.Errorf("asked in vain: urgent=%v, most %v", urgent, most)
	}
	stop()
	if _, _, urgent, most := n.questions(); urgent || most != livePause {
		t.Errorf("afterwards: urgent=%v, most %v", urgent, most)
	}
}
