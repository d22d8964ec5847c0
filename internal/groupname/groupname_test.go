package groupname

import "testing"

func TestGroupsOfTasksByTheirNames(t *testing.T) {
	for _, tt := range []struct {
		group string
		names []string
	}{
		// Numbers that count.
		{"task", []string{"task 0", "task 12", "task-3", "task_4", "task/5", "task #6", "task.7", "task8", "task", "task 007"}},
		{"node", []string{"node 0", "node 3"}},
		{"t", []string{"t1", "t20"}},
		{"lr-0.06", []string{"lr-0.06", "lr-0.06-0", "lr-0.06-12", "lr-0.06 #3", "lr-0.06/7"}},
		{"lr-1e-05", []string{"lr-1e-05", "lr-1e-05-3", "lr-1e-05 4"}},
		{"python3.12", []string{"python3.12", "python3.12-1"}},
		{"grid-3", []string{"grid-3-4", "grid-3-5"}},
		{"обучение", []string{"обучение-1", "обучение 22", "обучение3"}},
		{"学習", []string{"学習-1", "学習2"}},
		{"a.b-c_d", []string{"a.b-c_d-1", "a.b-c_d_2", "a.b-c_d.3"}},
		{"v1.2.3", []string{"v1.2.3", "v1.2.3-1", "v1.2.3 2"}},
	} {
		for _, name := range tt.names {
			if got := Of(name); got != tt.group {
				t.Errorf("%q is of group %q, want %q", name, got, tt.group)
			}
		}
	}
	// Digits that are a part of something longer.
	for _, name := range []string{
		"", "7", "0.06", "-5", "#3",
		"lr-0.06", "lr-0.1", "lr=0.5", "lr 0.25", "lr_0.125", "lr/0.5", "lr-.5", "lr0.06", "lr-0,06", "lr=1", "lr:3",
		"lr-1e-05", "lr-1e-5", "lr-1E-5", "lr-1e5", "lr-1e+05", "lr-1.5e-3", "lr_2.e-7", "1e-05", "lr=1e-05", "lr1e-4",
		"x--5", "x -5", "x_-5", "x/-0.5", "x=-5", "x:-2", "x(-2", "lr-−5",
		"model-1.2.3", "v1.2", "v2", "model-v2", "model v10", "cuda12.4", "resnet-v1.5", "10.0.0.7",
		"2026-11-29", "run-2026-11-29", "run_2026_11_29", "run 2026/11/29", "run-20261129", "run-2026-11-29T12:30:05", "run-20261129-123005", "run-2026-11-29_12-30",
		"commit-a3f9c12", "commit a3f9c1234567", "3f9c1b2", "run-0x12", "run-7e1", "deadbee7", "550e8400-e29b-41d4-a716-446655440000", "run-deadbeef01234567",
		"llama-7b", "50%", "٣", "lr-0.06-", "train-٣",
	} {
		if got := Of(name); got != name {
			t.Errorf("%q is of group %q, want its own", name, got)
		}
	}
}
