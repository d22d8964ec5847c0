package worker

import "strings"

// userStack returns the part of a stack, as debug.Stack has it in a deferred function, that is of the function which has
// panicked: without what runs after a panic, and without the frames by which it was called here. They are the same in each.
func userStack(stack string) string {
	lines := strings.Split(strings.TrimRight(stack, "\n"), "\n")
	from, to := 1, len(lines) // each frame has two lines; the goroutine has one before them
	for i := 1; i+1 < to; i += 2 {
		if !strings.HasPrefix(lines[i], "panic(") {
			continue
		}
		for from = i + 2; from+1 < to && strings.HasPrefix(lines[from], "runtime."); {
			from += 2
		}
		break
	}
	for to-2 >= from && isOurs(lines[to-2]) {
		to -= 2
	}
	if from >= to { // it has only such frames
		return stack
	}
	return strings.Join(append(lines[:1:1], lines[from:to]...), "\n") + "\n"
}

// isOurs reports whether a frame is of what calls the functions of a program.
func isOurs(frame string) bool {
	const module = "github.com/gputrain/gputrain"
	frame = strings.TrimPrefix(frame, "created by ")
	for _, of := range []string{".", "/internal/worker.", "/internal/calls.", "/internal/codec."} {
		if strings.HasPrefix(frame, module+of) {
			return true
		}
	}
	return strings.HasPrefix(frame, "sync.") || strings.HasPrefix(frame, "golang.org/x/sync/")
}
