package launcher

import (
	"strings"
	"testing"
)

// TestFits is a table of commands that would start another gang than the training's, and of those that would not. The gang has
// three nodes.
func TestFits(t *testing.T) {
	words := strings.Fields
	for _, tt := range []struct {
		launcher  Launcher
		args      []string
		script    string
		processes int
		says      string // "": it fits
	}{
		{Processes, words("torchrun train.py"), "", 0, "set Launcher to Torchrun"},
		{Processes, words("/opt/venv/bin/torchrun --nnodes 3 train.py"), "", 1, "set Launcher to Torchrun"},
		{Processes, words("uv run torchrun train.py"), "", 0, "set Launcher to Torchrun"},
		{Processes, words("uv run --with torch python -m torch.distributed.run train.py"), "", 0, "set Launcher to Torchrun"},
		{Processes, words("python3 -u -m torch.distributed.launch train.py"), "", 0, "set Launcher to Torchrun"},
		{Processes, words("env NCCL_DEBUG=INFO torchrun train.py"), "", 0, "set Launcher to Torchrun"},
		{Processes, []string{"bash", "-c", "cd src && torchrun train.py"}, "", 0, "set Launcher to Torchrun"},
		{Processes, nil, "set -e\nexport A=1\nexec torchrun \\\n  --nnodes 3 train.py\n", 0, "set Launcher to Torchrun"},
		{MPI, words("torchrun train.py"), "", 0, "set Launcher to Torchrun"},
		{Processes, words("torchrun --standalone train.py"), "", 0, "set Launcher to Torchrun"},
		{Processes, words("accelerate launch train.py"), "", 0, "accelerate starts"},
		{Processes, words("python -m accelerate.commands.launch train.py"), "", 0, "accelerate starts"},
		{Processes, words("deepspeed train.py"), "", 0, "--no_ssh"},
		{Processes, words("composer train.py"), "", 0, "composer starts"},
		{Processes, words("mpirun -np 3 python3 train.py"), "", 0, "set Launcher to MPI"},
		{MPI, words("mpirun python3 train.py"), "", 0, "leave it away"},
		{Torchrun, words("horovodrun -np 3 python3 train.py"), "", 0, "leave it away"},

		{Torchrun, words("torchrun --standalone train.py"), "", 0, "--standalone is for one node"},
		{Torchrun, words("torchrun --nnodes=1 train.py"), "", 0, "the gang has 3 nodes"},
		{Torchrun, words("torchrun --nnodes 1:3 train.py"), "", 0, "the gang has 3 nodes"},
		{Torchrun, words("torchrun --nproc_per_node 4 train.py"), "", 8, "ProcessesPerNode is 8"},
		{Torchrun, nil, "torchrun --nproc-per-node=\"4\" train.py", 8, "ProcessesPerNode is 8"},

		{Torchrun, words("torchrun train.py"), "", 0, ""},
		{Torchrun, words("torchrun --nnodes 3 --nproc-per-node 8 train.py --nnodes 7 --standalone"), "", 8, ""},
		{Torchrun, words("torchrun --nproc-per-node gpu -m train --nnodes 7"), "", 8, ""},
		{Torchrun, nil, "torchrun --nnodes $GPUTRAIN_NODES train.py", 0, ""},
		{Torchrun, words("accelerate launch --num_machines 3 train.py"), "", 0, ""},
		{Torchrun, words("python3 start.py"), "", 0, ""},
		{Processes, words("python3 train.py torchrun"), "", 0, ""},
		{Processes, words("python3 torchrun.py -m torch.distributed.run"), "", 0, ""},
		{Processes, words("accelerate env"), "", 0, ""},
		{Processes, nil, "pip install accelerate deepspeed torchrun\n# torchrun train.py\necho torchrun\npython3 train.py", 0, ""},
		{Processes, nil, "accelerate config default && python3 train.py", 0, ""},
		{MPI, words("python3 train.py"), "", 0, ""},
		{Processes, nil, "", 0, ""},
	} {
		err := Fits(tt.launcher, tt.args, tt.script, 3, tt.processes, "")
		if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v %q %q: %v, want %q", tt.launcher, tt.args, tt.script, err, tt.says)
		}
	}
	if err := Fits(Torchrun, words("torchrun --standalone train.py"), "", 1, 0, ""); err != nil {
		t.Errorf("on one node: %v", err)
	}
	if err := Fits(MPI, words("train"), "", 3, 0, "a.b"); err == nil || !strings.Contains(err.Error(), `"a.b" has a dot`) {
		t.Errorf("a dot: %v", err)
	}
	if err := Fits(Torchrun, words("torchrun train.py"), "", 3, 0, "a.b"); err != nil {
		t.Errorf("a dot: %v", err)
	}
}
