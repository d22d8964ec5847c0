package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// farNode returns a distant node, to which large files go over several sessions, which it logs.
func farNode(t *testing.T, config ...string) (*Remote, *opensshtest.Server, *opensshtest.Link) {
	t.Helper()
	s := opensshtest.Start(t, opensshtest.Config(append(config, "LogLevel VERBOSE")...), opensshtest.DefaultLimits)
	l := opensshtest.Proxy(t, s.Addr)
	l.Delay(2 * farRTT)
	return reach(t, s, l.Addr), s, l
}

// sessions counts the commands that a server has started.
func sessions(s *opensshtest.Server) int { return strings.Count(s.Log(), "Starting session: command") }

// wantSessions counts the sessions in the server's log, and waits for the log if it lags.
func wantSessions(t *testing.T, s *opensshtest.Server, before, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); sessions(s)-before < want && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := sessions(s) - before; n != want {
		t.Errorf("%d sessions, want %d", n, want)
	}
}

// noise returns content whose blocks all differ.
func noise(size int) []byte {
	content := make([]byte, size)
	rand.NewChaCha8([32]byte{3}).Read(content)
	return content
}

func arrived(t *testing.T, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, which differ from the %d that were sent: %v", len(got), len(want), err)
	}
}

func TestUploadFar(t *testing.T) {
	r, s, _ := farNode(t)
	then := time.Unix(1_000_000_000, 0)
	at := filepath.Join(r.Dir, "deep/-x 'q'\n\xff")
	for _, size := range []int{bulkSize + 1, bulkSize + block, 2*bulkSize - 1, 37*block + 12345} {
		content := noise(size)
		local := filepath.Join(t.TempDir(), "f")
		must(t, os.WriteFile(local, content, 0o600))
		must(t, os.Chmod(local, 0o754))
		must(t, os.Chtimes(local, then, then))
		var sent int64
		before := sessions(s)
		must(t, r.Upload(t.Context(), local, "deep/-x 'q'\n\xff", Options{Progress: func(n, _ int64) { sent = n }}))
		if sent != int64(size) {
			t.Errorf("%d bytes reported of %d", sent, size)
		}
		wantSessions(t, s, before, 1+bulkStreams)
		arrived(t, at, content)
		if info, err := os.Stat(at); err != nil || info.Mode() != 0o754 || !info.ModTime().Equal(then) {
			t.Errorf("%v %v, %v", info.Mode(), info.ModTime(), err)
		}
		noneStaged(t, r)
		if again := sentAgain(t, r, local, "deep/-x 'q'\n\xff"); again != 0 {
			t.Errorf("%d bytes of an unchanged file were sent again", again)
		}
	}
}

// TestUploadFarWithFewSessions limits the sessions of a connection: the parts use more connections.
func TestUploadFarWithFewSessions(t *testing.T) {
	for _, allowed := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			r, s, link := farNode(t, fmt.Sprint("MaxSessions ", allowed))
			content := noise(bulkSize + 5*block + 1)
			name := filepath.Join(t.TempDir(), "f")
			must(t, os.WriteFile(name, content, 0o644))
			// Each session stays open until a second connection is open. If a session ended first, another part could
			// use its connection.
			deadline := time.Now().Add(time.Minute)
			elsewhere := func(int64, int64) {
				for link.Dials() < 2 && time.Now().Before(deadline) {
					time.Sleep(time.Millisecond)
				}
			}
			for range 2 { // the second time, the limit of sessions is known
				before := sessions(s)
				must(t, r.Upload(t.Context(), name, "f", Options{Progress: elsewhere}))
				wantSessions(t, s, before, 1+bulkStreams)
				arrived(t, filepath.Join(r.Dir, "f"), content)
				noneStaged(t, r)
				must(t, os.Remove(filepath.Join(r.Dir, "f")))
			}
			if link.Dials() < 2 {
				t.Error("all went over one connection")
			}
		})
	}
}

// TestUploadFarIsCut cuts all connections once while the parts are sent: at their beginning, in the middle, or near
// the end.
func TestUploadFarIsCut(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it takes ten seconds")
	}
	for _, allowed := range []int{1, 10} {
		for _, after := range []int64{1, 5 << 20, bulkSize + 3<<20} {
			t.Run(fmt.Sprintf("MaxSessions %d after %d", allowed, after), func(t *testing.T) {
				r, _, link := farNode(t, fmt.Sprint("MaxSessions ", allowed))
				content := noise(bulkSize + 4<<20)
				name := filepath.Join(t.TempDir(), "f")
				must(t, os.WriteFile(name, content, 0o644))
				at := filepath.Join(r.Dir, "f")
				write(t, at, "the old one")
				cut := false
				must(t, r.Upload(t.Context(), name, "f", Options{Progress: func(n, _ int64) {
					if n >= after && !cut {
						cut = true
						arrived(t, at, []byte("the old one"))
						link.Cut()
					}
				}}))
				if !cut || link.Dials() < 2 {
					t.Error("nothing was cut")
				}
				arrived(t, at, content)
				noneStaged(t, r)
			})
		}
	}
}

// TestUploadFarIsCutAsPartsBegin cuts all connections just before the parts' programs open the
// staged file. The file is removed before they open it.
func TestUploadFarIsCutAsPartsBegin(t *testing.T) {
	real, err := exec.LookPath("dd")
	must(t, err)
	bin, state := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "dd"), []byte(fmt.Sprintf(`#!/bin/sh
: >'%[1]s/begun'$$
until [ -e '%[1]s/go' ]; do sleep 0.01; done
'%[2]s' "$@"
: >'%[1]s/ended'$$
`, state, real)), 0o755))
	r, _, link := farNode(t, "SetEnv PATH="+bin+":"+os.Getenv("PATH"))
	count := func(dir, pattern string) int {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		return len(found)
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("did not happen in time: " + what)
			}
		}
	}
	content := noise(bulkSize + 4<<20)
	name := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(name, content, 0o644))
	done := make(chan error, 1)
	go func() { done <- r.Upload(t.Context(), name, "f", Options{}) }()
	await("the parts' beginning", func() bool { return count(state, "begun*") == bulkStreams })
	first, err := filepath.Glob(filepath.Join(r.Dir, stagePrefix+"*"))
	must(t, err)
	link.Cut()
	await("the end of what was staged", func() bool { return len(first) == 1 && !exists(first[0]) })
	must(t, os.WriteFile(filepath.Join(state, "go"), nil, 0o644))
	must(t, <-done)
	await("the parts' end", func() bool { return count(state, "ended*") == count(state, "begun*") })
	arrived(t, filepath.Join(r.Dir, "f"), content)
	noneStaged(t, r)
}

// TestUploadFarIsCutForGood cuts every attempt, and the old file stays.
func TestUploadFarIsCutForGood(t *testing.T) {
	r, _, link := farNode(t)
	name := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(name, noise(bulkSize+4<<20), 0o644))
	at := filepath.Join(r.Dir, "f")
	write(t, at, "the old one")
	cuts, last := 0, int64(0)
	err := r.Upload(t.Context(), name, "f", Options{Progress: func(n, _ int64) {
		if last < 4<<20 && n >= 4<<20 {
			cuts++
			link.Cut()
		}
		last = n
	}})
	if !errors.Is(err, ssh.ErrDisconnected) || cuts != attempts {
		t.Errorf("%d cuts, %v", cuts, err)
	}
	arrived(t, at, []byte("the old one"))
	noneStaged(t, r)
}

// TestUploadFarLosesAPart kills the program of one part on the node, in the first attempt or in each. The incomplete file must
// not replace the old one.
func TestUploadFarLosesAPart(t *testing.T) {
	for _, kills := range []int{1, attempts} {
		r, _, _ := farNode(t)
		name, content := filepath.Join(t.TempDir(), "f"), noise(bulkSize+4<<20)
		must(t, os.WriteFile(name, content, 0o644))
		at := filepath.Join(r.Dir, "f")
		write(t, at, "the old one")
		killed, last, due := 0, int64(0), true
		err := r.Upload(t.Context(), name, "f", Options{Progress: func(n, _ int64) {
			if due = due || n < last; due && n >= 6<<20 && killed < kills {
				got := killPart(t, r)
				killed, due = killed+got, got == 0
			}
			last = n
		}})
		want := content
		if kills == attempts {
			want = []byte("the old one")
		}
		if killed != kills || (err == nil) != (kills < attempts) {
			t.Errorf("%d programs were ended: %v", killed, err)
		}
		arrived(t, at, want)
		noneStaged(t, r)
	}
}

// killPart kills one program that writes a part of a file on the node, which is this machine. It
// returns how many programs it killed.
func killPart(t *testing.T, r *Remote) int {
	t.Helper()
	out, err := exec.Command("ps", "-axwwo", "pid=,args=").Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		number, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		open, _ := os.Readlink("/proc/" + number + "/fd/3")
		if !strings.HasPrefix(args, "dd of=") || !strings.HasPrefix(args, "dd of="+r.Dir) && !strings.HasPrefix(open, r.Dir) {
			continue
		}
		pid, err := strconv.Atoi(number)
		must(t, err)
		p, err := os.FindProcess(pid)
		must(t, err)
		must(t, p.Kill())
		return 1
	}
	return 0
}
