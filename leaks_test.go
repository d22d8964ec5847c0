package gputrain_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/e2etest"
)

func TestLeaksAreFound(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=ThatLeaks$")
	cmd.Env = append(os.Environ(), e2etest.Leaking+"=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"FAIL: TestThatLeaks", "leakOfATest", "FAIL: ExampleThatLeaks", "leakOfAnExample"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(string(out), "FAIL: TestThatLeaks/parallel") || err == nil {
		t.Errorf("the program ended with %v", err)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
