package slurm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/strangertest"
	"github.com/gputrain/gputrain/providers/driver"
)

// jobPart runs a part of job.sh, from one line to before another, in a real shell, after what sets its variables. It may not take
// long, whatever it reads.
func jobPart(t *testing.T, before, after string) (out string, err error) {
	t.Helper()
	_, functions, _ := strings.Cut(jobScript, "# mine PATH")
	functions, _, _ = strings.Cut(functions, "\ntrap finish EXIT")
	_, stale, _ := strings.Cut(jobScript, "\n# is_over")
	stale, _, _ = strings.Cut(stale, "\nwork=$gt_work")
	_, mounts, _ := strings.Cut(jobScript, "\n# make_folders")
	mounts, loop, _ := strings.Cut(mounts, "\n# gt_mounts")
	loop, _, _ = strings.Cut(loop, "\n# What Setup")
	script := "umask 077\ntimer= server= gt_sweep=0 links=() dir= job=9\nsqueue() { return 1; }\ngive_up() { echo \"failed=$1\"; exit 1; }\n#" + functions + "\n#" + stale + "\n#" + mounts +
		"\nmount() {\n#" + loop + "\n}\n" + before + "\n" + after
	cmd := exec.Command("timeout", "30", "bash", "-c", script)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == 124 {
		t.Errorf("it waits for another user: %s", after)
	}
	return string(text), err
}

// What another user of a node has put into a shared folder is not used, followed or waited for.
func TestStrangersOnTheNode(t *testing.T) {
	strangertest.Need(t)
	for name, tt := range map[string]struct{ attack, run, want string }{
		"a link in place of the mount's": {`ln -s "$2" "$1/data"`, "mount", "failed=mount:1"},
		"a link elsewhere":               {`ln -s /etc "$1/data"`, "mount", "failed=mount:1"},
		"a file":                         {`: >"$1/data"`, "mount", "failed=mount:1"},
		"a pipe":                         {`mkfifo "$1/data"`, "mount", "failed=mount:1"},
		"a folder on the way":            {`mkdir -m 777 "$1/deep"`, "gt_mounts[1]=$work/deep/er/data; mount", "failed=mount:1"},
		"a link on the way":              {`mkdir -m 777 "$1/x"; ln -s "$1/x" "$1/deep"`, "gt_mounts[1]=$work/deep/data; mount", "failed=mount:1"},
		"a work folder":                  {`mkdir -m 777 "$1/theirs"`, `trusted "$work/theirs" || echo refused`, "refused"},
		"a link as work folder":          {`ln -s /tmp "$1/theirs"`, `trusted "$work/theirs" || echo refused`, "refused"},
		"pipes of jobs that end": {`mkdir -m 777 "$1/gputrain-1-a" "$1/gputrain-2-b"; mkfifo "$1/gputrain-1-a/links" "$1/gputrain-1-a/pid"; ln -s "$1/gputrain-1-a/links" "$1/gputrain-2-b/links"`,
			`mount; remove_stale; finish; [ -L "$work/data" ] || echo clean`, "clean"},
		"a list that has the link":        {`mkdir -m 755 "$1/gputrain-1-a"; echo "$1/data" >"$1/gputrain-1-a/links"`, `mount; finish; [ -L "$work/data" ] || echo clean`, "clean"},
		"a closed list that has the link": {`mkdir -m 700 "$1/gputrain-1-a"; echo "$1/data" >"$1/gputrain-1-a/links"`, `mount; finish; [ -L "$work/data" ] || echo clean`, "clean"},
		"pipes in a closed folder of this user": {`:`, `mkdir -m 700 "$work/gputrain-1-a"; mkfifo "$work/gputrain-1-a/pid" "$work/gputrain-1-a/links"
			mount; remove_stale; finish; [ -p "$work/gputrain-1-a/pid" ] && echo clean`, "clean"},
		"a link to a folder of this user": {`ln -s "$2/mine" "$1/gputrain-1-a"`, `mkdir -m 777 "$gt_mounts/mine"; mkfifo "$gt_mounts/mine/pid" "$gt_mounts/mine/links"
			mount; remove_stale; finish; [ -p "$gt_mounts/mine/pid" ] && echo clean`, "clean"},
		"an open folder of this user": {`:`, `mkdir -m 777 "$work/gputrain-1-a"; chmod 777 "$work/gputrain-1-a"; mkfifo "$work/gputrain-1-a/pid" "$work/gputrain-1-a/links"
			mount; remove_stale; finish; [ -p "$work/gputrain-1-a/pid" ] && echo clean`, "clean"},
	} {
		t.Run(name, func(t *testing.T) {
			work, source := strangertest.Shared(t), t.TempDir()
			strangertest.Run(t, tt.attack, work, source)
			out, _ := jobPart(t, "work="+quote(work)+"\ngt_mounts=("+quote(source)+" \"$work/data\")\ndir=$(mktemp -d \"$work/gputrain-9-XXXXXX\")", tt.run)
			if !strings.Contains(out, tt.want) {
				t.Errorf("%q, want %q", out, tt.want)
			}
		})
	}
}

// A folder of another user is a job's work folder only where its owner, or root, has let him put it: a project's, whose group may write
// or not. None is found through what everybody could have put there.
func TestProjectWorkDir(t *testing.T) {
	strangertest.Need(t)
	for name, tt := range map[string]struct {
		make, path string // made by the other user in $1, which is his, or in $2, which everybody may write to
		want       bool
	}{
		"closed":                              {`mkdir -m 755 "$1/lab"`, "project/lab", true},
		"of a group":                          {`mkdir -m 2770 "$1/lab"`, "project/lab", true},
		"deep":                                {`mkdir -m 755 -p "$1/lab" "$1/lab/x"`, "project/lab/x", true},
		"a link there":                        {`mkdir -m 755 "$1/lab"; ln -s lab "$1/now"`, "project/now", true},
		"for everybody, and sticky":           {`mkdir "$1/lab"; chmod 1777 "$1/lab"`, "project/lab", true},
		"for everybody":                       {`mkdir "$1/lab"; chmod 777 "$1/lab"`, "project/lab", false},
		"below one for everybody":             {`mkdir "$1/lab"; mkdir -m 755 "$1/lab/x"; chmod 777 "$1/lab"`, "project/lab/x", false},
		"below a sticky one":                  {`mkdir "$1/lab"; mkdir -m 755 "$1/lab/x"; chmod 1777 "$1/lab"`, "project/lab/x", false},
		"where everybody may write":           {`mkdir -m 755 "$2/lab"`, "shared/lab", false},
		"deep where everybody may write":      {`mkdir -m 755 -p "$2/lab" "$2/lab/x"`, "shared/lab/x", false},
		"a link where everybody may write":    {`ln -s "$1" "$2/lab"`, "shared/lab", false},
		"below a link that everybody may set": {`mkdir -m 755 "$1/lab"; ln -s "$1" "$2/p"`, "shared/p/lab", false},
		"by way of that":                      {`mkdir -m 755 "$1/lab"; ln -s "$2/../project/lab" "$1/now"`, "project/now", true},
		"a link to where everybody may write": {`mkdir -m 755 "$2/lab"; ln -s "$2/lab" "$1/now"`, "project/now", false},
		"a link to itself":                    {`ln -s now "$1/now"`, "project/now", false},
		"a file":                              {`: >"$1/lab"`, "project/lab", false},
		"nothing":                             {`:`, "project/lab", false},
	} {
		t.Run(name, func(t *testing.T) {
			top := filepath.Join(strangertest.Shared(t), "top")
			project, shared := filepath.Join(top, "project"), filepath.Join(top, "shared")
			for dir, mode := range map[string]os.FileMode{top: 0o755, project: 0o777, shared: 0o777 | os.ModeSticky} {
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, mode)); err != nil {
					t.Fatal(err)
				}
			}
			strangertest.Run(t, tt.make, project, shared)
			if err := os.Chmod(project, 0o755); err != nil {
				t.Fatal(err)
			}
			out, _ := jobPart(t, "", "if settled "+quote(filepath.Join(top, tt.path))+"; then echo used; else echo refused; fi")
			if want := map[bool]string{true: "used\n", false: "refused\n"}[tt.want]; out != want {
				t.Errorf("%q", out)
			}
		})
	}
}

// A job has no folder in one of another user.
func TestStrangersWorkDir(t *testing.T) {
	work := filepath.Join(strangertest.Shared(t), "theirs")
	strangertest.Run(t, `mkdir -m 777 "$1"`, work)
	r := newRig(t, func(c *Config, _ *cluster) { c.WorkDir = work })
	in := r.until(r.submit(), "failure", func(in driver.Instance) bool { return in.State == driver.InstanceFailed })
	if in.FailureKind != driver.ErrInvalid || !strings.Contains(in.StateReason, "yours or root's") {
		t.Errorf("%+v", in)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// What is this user's is used: a link of another job, which stays as long as that job, and what a job that was killed has left.
func TestOwnOnTheNode(t *testing.T) {
	work, source := t.TempDir(), t.TempDir()
	set := "work=" + quote(work) + "\ngt_mounts=(" + quote(source) + " \"$work/a/b/data\")\nbegin() { links=(); dir=$(mktemp -d \"$work/gputrain-9-XXXXXX\"); mount; }\n"
	out, err := jobPart(t, set, `begin; first=$dir; begin; finish; [ -L "$work/a/b/data" ] && echo used; dir=$first; finish; [ -L "$work/a/b/data" ] || echo gone`)
	if err != nil || !strings.Contains(out, "used\ngone") {
		t.Errorf("%q, %v", out, err)
	}
	out, err = jobPart(t, set, `begin; true & pid=$!; wait; echo "$(hostname) $pid" >"$dir/pid"; remove_stale; ls -d "$dir" 2>/dev/null || echo removed`)
	if err != nil || !strings.Contains(out, "removed") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := os.Lstat(filepath.Join(work, "a/b/data")); err != nil {
		t.Error(err)
	}
}
