package training

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gputrain/gputrain/internal/test/trainimage"
	"github.com/gputrain/gputrain/internal/test/usagetest"
	"github.com/gputrain/gputrain/providers/container"
)

// The usage program train runs under every launcher that Debian's packages have. A docker in front of the engine's has the
// image with these packages in place of the default one, into which they would be installed.
func TestUsageTrain(t *testing.T) {
	trainimage.Require(t)
	program := usagetest.Build(t, "train")
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	wrapper := `#!/bin/sh
for a; do
	shift
	[ "$a" != ` + container.DefaultImage + ` ] || a=` + trainimage.Image + `
	set -- "$@" "$a"
done
exec ` + docker + ` "$@"
`
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, tt := range []struct {
		how  string
		want []string
	}{
		{"processes", []string{`(?m)^rank 2 on node 2 exit code 0 <nil>$`, `(?m)^step 1000 of 0 \d`, `newest checkpoint: \S*llm-checkpoints/\S*step-1000\n`}},
		{"torchrun", []string{`(?m)^rank 2 on node 2 exit code 0 <nil>$`, `newest checkpoint: \S*step-1000\n`}},
		{"mpi", []string{`(?m)^rank 0 on node 0 exit code 0 <nil>$`, `newest checkpoint: \S*step-1000\n`}},
		{"go", []string{`attempt 1 goes on from \n`, `(?m)^rank 2 on node 2 exit code \S+ <nil>$`, `(?m)^100 steps in `, `(?m)^2\.4\S*e-18 <nil>$`}},
	} {
		t.Run(tt.how, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(program.Dir, "llm-checkpoints")); err != nil {
				t.Fatal(err)
			}
			out, errOut, err := program.Run(t, nil, "-how", tt.how)
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, errOut)
			}
			for _, want := range append(tt.want, `(?m)^attempt 1 on 3 nodes from "": steps \d+ to 1\d*0: <nil>$`) {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("the output does not match %s:\n%s%s", want, out, errOut)
				}
			}
		})
	}
}
