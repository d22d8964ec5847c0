package supervisor

import "testing"

// A task whose output a caller waits for is polled at once, and often until the caller is done.
func TestHasten(t *testing.T) {
	n := &Node{tasks: map[string]*task{"a": newTask("a"), "b": newTask("b")}, poll: newPoller()}
	for _, task := range n.tasks {
		task.begin(true)
	}
	n.tasks["b"].live = true
	if qs, tasks, urgent, most := questions(n.tasks); len(qs) != 1 || tasks != 2 || urgent || most != livePause {
		t.Errorf("before: %d questions about %d, urgent=%v, most %v", len(qs), tasks, urgent, most)
	}
	n.Hasten("unknown")()
	stop := n.Hasten("a")
	select {
	case <-n.poll.attention:
	default:
		t.Error("Hasten does not wake the poller")
	}
	if _, _, urgent, most := questions(n.tasks); !urgent || most != firstPause {
		t.Errorf("hastened: urgent=%v, most %v", urgent, most)
	}
	n.tasks["a"].asked(maxBudget)
	if _, _, urgent, most := questions(n.tasks); urgent || most != firstPause {
		t.Errorf("asked in vain: urgent=%v, most %v", urgent, most)
	}
	stop()
	if _, _, urgent, most := questions(n.tasks); urgent || most != livePause {
		t.Errorf("afterwards: urgent=%v, most %v", urgent, most)
	}
}
