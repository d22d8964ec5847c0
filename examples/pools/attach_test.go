package main

import (
	"bytes"
	"strings"
	"testing"
)

// begun is a script that says so to the test, prints, and goes on until the file "go" is beside it.
const begun = `echo out of it; echo error of it >&2; touch "$HOME/begun"; while [ ! -e "$HOME/go" ]; do sleep 0.05; done; printf 'last \033[31mred\n'`

// The tasks of a dead program's pool go on while commands look at them.
func TestTakenOver(t *testing.T) {
	p := newPlace(t)
	id := dead(t, p, "lost", map[string]string{"work": begun})
	at := []string{"-state", p.state, "-provider", p.provider()}
	line := func(args ...string) []string { return append(args, at...) }
	for _, args := range [][]string{{"jobs", "lost"}, {"logs", "lost", "t1"}, {"watch", "lost"}, {"shell", "lost", "0"}} {
		pools(t, line(args...)...).wants(t, 1, "^$", "was not taken over: -yes does it")
	}
	answered(t, "n\n", line("jobs", "lost")...).wants(t, 1, "^$", `Take pool `+id+` over .*was not taken over`)

	jobs := decode[[]jobView](t, pools(t, line("jobs", "lost", "-yes", "-json")...))
	if len(jobs) != 1 || jobs[0].State != "started" || jobs[0].Name != "work" {
		t.Fatalf("%+v", jobs)
	}
	job := jobs[0].ID
	answered(t, "yes\n", line("jobs", id)...).wants(t, 0, `(?m)^`+job+` .*started`, "Take pool")
	pools(t, line("logs", "lost", "none", "-yes")...).wants(t, 1, "^$", `no job "none"; "pools jobs`)
	pools(t, line("shell", "lost", "7", "-yes")...).wants(t, 1, "^$", "rank")

	var out, err bytes.Buffer
	shell := &app{in: strings.NewReader("echo in the shell; exit 0\n"), out: &out, err: &err}
	if code := shell.main(t.Context(), line("shell", "lost", "0", "-yes")); code != 0 || !strings.Contains(out.String(), "in the shell\n") {
		t.Errorf("shell: %d, %s%s", code, out.String(), err.String())
	}

	interrupted(t, `"states":["ready"]`, line("watch", "lost", "-yes", "-json", "-page")...).wants(t, 0, `"states":\["ready"\]`, "the page is at http://127.0.0.1:")

	shell = &app{in: strings.NewReader(`touch "$HOME/go"` + "\n"), out: &out, err: &err}
	if code := shell.main(t.Context(), line("shell", "lost", "0", "-yes", "-json")); code != 0 || !strings.Contains(out.String(), `"exitCode": 0`) {
		t.Errorf("shell: %d, %s%s", code, out.String(), err.String())
	}
	pools(t, line("logs", "lost", job, "-yes")...).wants(t, 0, `^out of it\nlast \[31mred\n$`, `^error of it\n$`)
	pools(t, line("logs", "lost", job, "-yes", "-raw")...).wants(t, 0, "^out of it\nlast \x1b\\[31mred\n$", `^error of it\n$`)
	pools(t, line("logs", "lost", job, "-yes", "-json")...).wants(t, 0, `"job":"`+job+`","text":"out of it"`, `^$`)
	pools(t, line("jobs", "lost", "-yes")...).wants(t, 0, `(?m)^`+job+` .*(ended|done)`, "^$")
	pools(t, line("end", "job", "lost", job, "-yes")...).wants(t, 1, "^$", "has ended already")
	pools(t, line("end", "pool", "lost", "-yes")...).wants(t, 0, "ended local machine", "^$")
}

func TestEndJob(t *testing.T) {
	p := newPlace(t)
	id := dead(t, p, "lost", map[string]string{"work": begun})
	at := []string{"-state", p.state, "-provider", p.provider()}
	job := decode[[]jobView](t, pools(t, append([]string{"jobs", id, "-yes", "-json"}, at...)...))[0].ID
	line := append([]string{"end", "job", "lost", job}, at...)
	pools(t, line...).wants(t, 0, "^$", "nothing was ended: -yes")
	pools(t, append(line, "-json")...).wants(t, 0, `"dryRun": true`, "^$")
	pools(t, append(line, "-yes")...).wants(t, 0, "^ended job "+job+" of pool "+id+"\n$", "^$")
	pools(t, append([]string{"jobs", id, "-yes"}, at...)...).wants(t, 0, job+` .*(ended|cancelled)`, "^$")
	pools(t, append([]string{"end", "pool", "lost", "-yes"}, at...)...).wants(t, 0, "ended local machine", "^$")
}

func TestSecretFlag(t *testing.T) {
	p := newPlace(t)
	id := dead(t, p, "lost", nil)
	at := []string{"-state", p.state, "-provider", p.provider(), "-yes"}
	pools(t, append([]string{"jobs", id, "-secret", "TOKEN=hunter2"}, at...)...).wants(t, 2, "^$", "-secret takes NAME=REFERENCE")
	pools(t, append([]string{"jobs", id, "-secret", "TOKEN=literal://x"}, at...)...).wants(t, 0, "^no tasks", "^$")
	pools(t, append([]string{"end", "pool", id}, at...)...).wants(t, 0, "ended", "^$")
}
