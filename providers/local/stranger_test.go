//go:build unix

package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/internal/test/strangertest"
	"github.com/gputrain/gputrain/providers/driver"
)

// Another user makes every name in the shared folder that this driver may take there.
func TestStrangersHomes(t *testing.T) {
	for name, makeOwn := range map[string]string{
		"folder": `mkdir -m 777 "$1"`, "link": `ln -s "$2" "$1"`, "file": `echo x >"$1"`, "nothing": ":",
	} {
		t.Run(name, func(t *testing.T) {
			shared, precious := strangertest.Shared(t), t.TempDir()
			p := newPool(t, Config{Dir: shared})
			id := p.request(1).Nodes[0].Name
			strangertest.Run(t, `cd "$1" && mkdir -m 777 "gputrain-$3" "gputrain-$3-r1" && `+strings.ReplaceAll(makeOwn, `"$1"`, `"$4"`),
				shared, precious, id, ownName())
			// Another user also makes files at the places of marks.
			strangertest.Run(t, `mkfifo "$1/gputrain-$2/.gputrain-node" && ln -s /etc/passwd "$1/gputrain-$2-r1/.gputrain-node"`, shared, id)
			theirs := names(t, shared)

			in := p.launch(1)[0]
			home := string(p.Driver.(*localDriver).homes.find(in.ID))
			if got := p.output(in, "pwd"); got != home+"\n" || filepath.Dir(home) == shared {
				t.Errorf("the home is %q, and the node works in %q", home, got)
			}
			own := filepath.Dir(home)
			if info, err := os.Lstat(own); err != nil || filepath.Dir(own) != shared || info.Mode().Perm() != 0o700 {
				t.Errorf("the folder of the homes is %s: %v, %v", own, info, err)
			}
			if open := strangertest.Opens(t, own); len(open) > 0 {
				t.Errorf("the stranger opens %v", open)
			}
			for _, pool := range []string{p.info.ID, ""} {
				if held, err := p.List(t.Context(), pool); err != nil || len(held) != 2 || held[0].ID != in.ID || held[1].ID != home {
					t.Errorf("listed %+v, %v", held, err)
				}
			}

			// Another program of this user finds the same home, and ends it.
			p.Close()
			other := newPool(t, Config{Dir: shared})
			if got, err := other.Describe(t.Context(), in.ID, in.ID+"-r1"); err != nil || got[0].State != driver.InstanceStopped || got[1].State != driver.InstanceTerminated {
				t.Errorf("described %+v, %v", got, err)
			}
			if got := other.Capabilities().Account; got != p.Capabilities().Account {
				t.Errorf("the account is %s, and was %s", got, p.Capabilities().Account)
			}
			if err := other.Terminate(t.Context(), in.ID, in.ID+"-r1"); err != nil {
				t.Error(err)
			}
			if held, err := other.List(t.Context(), p.info.ID); len(held) > 0 || err != nil {
				t.Errorf("listed %+v, %v", held, err)
			}
			if left := names(t, shared); !slices.Equal(left, theirs) {
				t.Errorf("the folder has %v; the stranger's are %v", left, theirs)
			}
			if left := names(t, precious); len(left) > 0 {
				t.Errorf("a link led to %v", left)
			}
		})
	}
}

// Versions before this one made homes in the shared folder itself.
func TestHomesOfOlderVersions(t *testing.T) {
	shared := strangertest.Shared(t)
	p := newPool(t, Config{Dir: shared})
	old := p.info.ID + "-7"
	if err := makeHome(machine.Home(homePath(shared, old)), mark{Rank: 7}.renewed(p.info), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Describe(t.Context(), old); err != nil || got[0].State != driver.InstanceStopped || got[0].Rank != 7 {
		t.Errorf("described %+v, %v", got, err)
	}
	if held, err := p.List(t.Context(), p.info.ID); err != nil || len(held) != 2 || held[1].ID != homePath(shared, old) {
		t.Errorf("listed %+v, %v", held, err)
	}
	if err := p.Terminate(t.Context(), old); err != nil {
		t.Error(err)
	}
	if left := names(t, shared); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// A folder that others can write to is no home, as no version makes it so.
	os.Mkdir(homePath(shared, old), 0o700)
	os.Chmod(homePath(shared, old), 0o777)
	if held, err := p.List(t.Context(), ""); len(held) > 0 || err != nil {
		t.Errorf("listed %+v, %v", held, err)
	}
}

// A mark, which tasks can write to, is read only if it is a regular file of limited size.
func TestMarksAreRegularFiles(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("/dev/zero", path) },
		"long": func(path string) error { return os.WriteFile(path, make([]byte, machine.MaxFile+1), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, Config{})
			in := p.launch(1)[0]
			p.Close()
			path := filepath.Join(homePath(p.dir, in.ID), markFile)
			os.Remove(path)
			if err := place(path); err != nil {
				t.Fatal(err)
			}
			if m, err := readMark(machine.Home(filepath.Dir(path))); err == nil {
				t.Errorf("read %+v", m)
			}
			if held, err := p.List(t.Context(), p.info.ID); err != nil || len(held) != 2 || held[0].Pool != p.info.ID {
				t.Errorf("listed %+v, %v", held, err)
			}
			if err := p.Terminate(t.Context(), in.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// forged returns the marks of a node that any process can have: the names.
func forged(p *testPool, id string) []string {
	return []string{poolEnv + "=" + p.info.ID, nodeEnv + "=" + id, homesEnv + "=" + p.Driver.(*localDriver).real}
}

// A process with a forged mark is neither ended with the node nor waited for, be it another
// user's or one of this user's from elsewhere. All processes that the node started are ended.
func TestForgedMarks(t *testing.T) {
	needMarks(t)
	strangertest.Need(t)
	p := newPool(t, Config{})
	in := p.launch(1)[0]
	own := p.detach(in)
	marks := forged(p, in.ID)
	stranger := strangertest.Start(t, marks...)
	wrong := strangertest.Start(t, append(marks, tokenEnv+"=wrong")...)
	other := strangertest.Sleeping(t, append(marks, tokenEnv+"=of-another-node")...)
	joined := strangertest.Sleeping(t, "X=\n"+nodeEnv+"="+in.ID)

	if err := p.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	own.mustEnd(t)
	for _, pid := range []int{stranger, wrong, other, joined} {
		if !strangertest.Lives(t, pid) {
			t.Errorf("process %d was ended", pid)
		}
	}
	// After the node's end, only this user's processes still count as the node's.
	if held, err := p.List(t.Context(), p.info.ID); err != nil || len(held) != 1 || held[0].ID != in.ID {
		t.Errorf("listed %+v, %v", held, err)
	}
	if err := p.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	eventually(t, "end of the process without a home", func() bool { return !strangertest.Lives(t, other) }) // the kill may take a moment
	if !strangertest.Lives(t, stranger) || !strangertest.Lives(t, wrong) {
		t.Error("the end of a node without a home is not that of this user's processes alone")
	}
	for _, pool := range []string{p.info.ID, ""} {
		if held, err := p.List(t.Context(), pool); len(held) > 0 || err != nil {
			t.Errorf("listed %+v, %v", held, err)
		}
	}
}

// A setuid program that runs as this user belongs to the user that started it.
func TestForgedMarkOfASetuidProgram(t *testing.T) {
	needMarks(t)
	shared := strangertest.Shared(t)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	setuid := filepath.Join(shared, "sleep")
	if err := os.WriteFile(setuid, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(setuid, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	p := newPool(t, Config{})
	id := p.info.ID + "-0"
	cmd := strangertest.Command(t, `exec "$1" 1000`, setuid)
	cmd.Env = append(cmd.Env, forged(p, id)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	becomes(t, cmd.Process.Pid, setuid)
	if held, err := p.List(t.Context(), p.info.ID); len(held) > 0 || err != nil {
		t.Errorf("listed %+v, %v", held, err)
	}
	if err := p.Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
	if !strangertest.Lives(t, cmd.Process.Pid) {
		t.Error("a stranger's program was ended")
	}
}

// A process of a node that changes to another user ends with the node: it has the token.
func TestProcessesThatGiveUpRightsEnd(t *testing.T) {
	needMarks(t)
	strangertest.Need(t)
	p := newPool(t, Config{})
	in := p.launch(1)[0]
	token := p.Driver.(*localDriver).node(in.ID).mark.Token
	pid := strangertest.Start(t, append(forged(p, in.ID), tokenEnv+"="+token)...)
	if err := p.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	eventually(t, "the end of a process with the node's token", func() bool { return !strangertest.Lives(t, pid) })
}

// A node's own script checks the token, too.
func TestSelfDestructOfForgedMarks(t *testing.T) {
	needMarks(t)
	p := newPool(t, Config{})
	in := p.launch(1)[0]
	own := p.detach(in)
	stranger := strangertest.Start(t, forged(p, in.ID)...)
	other := strangertest.Sleeping(t, append(forged(p, in.ID), tokenEnv+"=of-another-node")...)
	text := p.Driver.(driver.Scripter).Scripts(in).SelfDestruct
	if strings.Contains(text, p.Driver.(*localDriver).node(in.ID).mark.Token) {
		t.Error("a command line that every user can read has the token")
	}
	cmd := exec.Command("sh", "-c", text)
	cmd.Env = append(os.Environ(), nodeEnv+"="+in.ID, tokenEnv+"="+p.Driver.(*localDriver).node(in.ID).mark.Token)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	own.mustEnd(t)
	if !strangertest.Lives(t, stranger) || !strangertest.Lives(t, other) {
		t.Error("a process with a forged mark was ended")
	}
}

func needMarks(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no environments of processes to be seen here")
	}
}

// becomes waits until a process runs a program.
func becomes(t *testing.T, pid int, program string) {
	t.Helper()
	eventually(t, program, func() bool {
		exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		return err == nil && exe == program
	})
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ; !is(); time.Sleep(time.Millisecond) {
		if t.Context().Err() != nil {
			t.Fatal("no ", what)
		}
	}
}
