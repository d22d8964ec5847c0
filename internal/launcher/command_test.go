//go:build unix

package launcher

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs what a node would run, and returns its stdout.
func run(t *testing.T, args []string, script string, env ...string) string {
	t.Helper()
	if script != "" {
		args = []string{"sh", "-c", script}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestCommand(t *testing.T) {
	scratch := t.TempDir()
	show := []string{"sh", "-c", `cat "$GPUTRAIN_HOSTFILE"; echo "$PET_LOG_DIR $TORCH_NCCL_DEBUG_INFO_TEMP_FILE $TORCH_FR_DUMP_TEMP_FILE $1 $2"`, "sh", "it's", `a "b" $c`}
	script := `cat "$GPUTRAIN_HOSTFILE"; echo "$PET_LOG_DIR $TORCH_NCCL_DEBUG_INFO_TEMP_FILE $TORCH_FR_DUMP_TEMP_FILE it's a \"b\" \$c"`
	hosts, trace := twoByTwo.Hostfile(), scratch+"/nccl_trace_rank_"
	for _, tt := range []struct {
		name     string
		launcher Launcher
		args     []string
		script   string
		env      string
		want     string
	}{
		{"command", Processes, show, "", "A=b", hosts + " " + trace + " " + trace + ` it's a "b" $c` + "\n"},
		{"script", Processes, nil, script, "A=b", hosts + " " + trace + " " + trace + ` it's a "b" $c` + "\n"},
		{"torchrun", Torchrun, show, "", "A=b", hosts + scratch + "/torchrun " + trace + " " + trace + ` it's a "b" $c` + "\n"},
		{"the task's variable wins", Torchrun, show, "", "PET_LOG_DIR=/mine", hosts + "/mine " + trace + " " + trace + ` it's a "b" $c` + "\n"},
		{"older name", Processes, show, "", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/old", hosts + ` /old /old it's a "b" $c` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args, script := twoByTwo.Command(tt.launcher, tt.args, tt.script)
			if got := run(t, args, script, "GPUTRAIN_SCRATCH="+scratch, tt.env); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// tools makes a folder with programs of sh.
func tools(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMPIRunCommand(t *testing.T) {
	const version = `[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }` + "\n"
	bin := tools(t, map[string]string{"mpirun": version + `printf '<%s>' "$@"; echo; echo "$OMPI_MCA_plm_rsh_agent $PRTE_MCA_plm_ssh_agent"`})
	scratch := t.TempDir()
	args, _ := twoByTwo.Command(MPI, []string{"python3", "a b.py"}, "")
	out := run(t, args, "", "GPUTRAIN_SCRATCH="+scratch, "PATH="+bin+":"+os.Getenv("PATH"))
	agent := "sh " + scratch + "/mpi/agent"
	want := "<-np><4><--hostfile><" + scratch + "/hostfile><sh><-c><" + ranks + "><sh><python3><a b.py>\n" + agent + " " + agent + "\n"
	if out != want {
		t.Errorf("got %q\nwant %q", out, want)
	}
	for _, tt := range []struct {
		name, mpirun, scratch, want string
	}{
		{"another MPI", "echo 'HYDRA build details: Version: 4.0'", scratch, "is not Open MPI's"},
		{"no mpirun", "", scratch, "has no mpirun"},
		{"a space", version, t.TempDir() + "/a b", "has a space"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.MkdirAll(tt.scratch, 0o777); err != nil {
				t.Fatal(err)
			}
			path := t.TempDir()
			if tt.mpirun != "" {
				path = tools(t, map[string]string{"mpirun": tt.mpirun}) + ":" + os.Getenv("PATH")
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "GPUTRAIN_SCRATCH="+tt.scratch, "PATH="+path)
			out, err := cmd.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !IsUnsupported(exit.ExitCode(), string(out)) || !strings.Contains(string(out), tt.want) {
				t.Errorf("got %v, %s", err, out)
			}
		})
	}
}

// TestRanks checks that a process of mpirun has the variables of torch.distributed.
func TestRanks(t *testing.T) {
	show := []string{"sh", "-c", ranks, "sh", "sh", "-c", `echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $1"`, "sh", "a b"}
	ompi := []string{"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=4"}
	if got := run(t, show, "", ompi...); got != "5 8 1 4 a b\n" {
		t.Errorf("got %q", got)
	}
	if got := run(t, show, "", append(ompi, "LOCAL_RANK=0")...); got != "5 8 0 4 a b\n" {
		t.Errorf("a task's LOCAL_RANK does not win: %q", got)
	}
}

func TestIsUnsupported(t *testing.T) {
	for _, tt := range []struct {
		code int
		tail string
		want bool
	}{
		{69, "gputrain: this node has no mpirun\n", true},
		{69, "a\ngputrain: this node has no mpirun", true},
		{1, "gputrain: this node has no mpirun\n", false},
		{69, "gputrain: step=3\nValueError: x\n", false},
		{69, "", false},
	} {
		if got := IsUnsupported(tt.code, tt.tail); got != tt.want {
			t.Errorf("IsUnsupported(%d, %q) = %v", tt.code, tt.tail, got)
		}
	}
}
