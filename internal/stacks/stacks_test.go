package stacks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// here runs commands on this computer.
type here struct{ path string }

func (h here) Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Stdin, c.Stdout, c.Stderr = stdin, stdout, stderr
	if h.path != "" {
		c.Env = append(os.Environ(), "PATH="+h.path+":"+os.Getenv("PATH"))
	}
	return c.Run()
}

// sleeper starts a process with a variable in its environment, under a name.
func sleeper(t *testing.T, name, variable string, path string) *exec.Cmd {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("the system has no /proc")
	}
	program := filepath.Join(t.TempDir(), name)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleep, program); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "60")
	c.Env = []string{variable, "PATH=" + path, "RANK=3"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c
}

func TestDumpShowsProcessesWithTheVariable(t *testing.T) {
	const match = "GPUTRAIN_TEST_DUMP=it's mine"
	mine := sleeper(t, "mine", match, "/bin")
	sleeper(t, "other", match+"-2", "/bin")
	var got string
	for range 100 { // until the child has its new environment
		if got = Dump(t.Context(), here{}, match); strings.Contains(got, "(mine)") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if heading := fmt.Sprintf("process %d (mine) of rank 3, child of %d\n", mine.Process.Pid, os.Getpid()); !strings.Contains(got, heading) {
		t.Errorf("no %q in %q", heading, got)
	}
	if !strings.Contains(got, "State:") || !strings.Contains(got, "thread ") || strings.Contains(got, "(other)") {
		t.Errorf("of %d: %q", mine.Process.Pid, got)
	}
}

func TestDumpPrefersPySpy(t *testing.T) {
	tools := t.TempDir()
	spy := "#!/bin/sh\n[ \"$1 $2\" = 'dump --pid' ] && echo \"train (train.py:7) of $3\"\n"
	if err := os.WriteFile(filepath.Join(tools, "py-spy"), []byte(spy), 0o755); err != nil {
		t.Fatal(err)
	}
	const match = "GPUTRAIN_TEST_DUMP=python"
	sleeper(t, "python3", match, tools)
	var got string
	for range 100 {
		if got = Dump(t.Context(), here{}, match); strings.Contains(got, "python3") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !strings.Contains(got, "train (train.py:7)") || strings.Contains(got, "State:") {
		t.Errorf("%q", got)
	}
}

type prints string

func (p prints) Exec(_ context.Context, _ string, _ io.Reader, stdout, _ io.Writer) error {
	io.WriteString(stdout, string(p))
	return errors.New("and then it ended")
}

func TestDumpIsBounded(t *testing.T) {
	if got := Dump(t.Context(), prints(strings.Repeat("x", 2*mostBytes)), "A=b"); len(got) != mostBytes+len(" [cut]") {
		t.Errorf("%d bytes", len(got))
	}
	if got := Dump(t.Context(), prints("some\n"), "A=b"); got != "some" {
		t.Errorf("%q", got)
	}
	if got := Dump(t.Context(), prints("some\n"), "A=\x00"); got != "" {
		t.Errorf("%q", got)
	}
}
