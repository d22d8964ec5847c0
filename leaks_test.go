package gputrain_test

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
)

// eachLooksForLeaks has every test and example of this package fail by itself
// if a goroutine that it started outlives it: its parallel subtests and its cleanups
// included. It changes what the package testing was given to run, so that no test can
// forget it. Where testing no longer has these lists, this panics.
//
// Beside another test nobody could tell whose a goroutine is. So a test with
// t.Parallel panics; its subtests may be parallel to each other.
func eachLooksForLeaks(m *testing.M) {
	list := func(name string) unsafe.Pointer {
		return unsafe.Pointer(reflect.ValueOf(m).Elem().FieldByName(name).UnsafeAddr())
	}
	tests := *(*[]testing.InternalTest)(list("tests"))
	examples := *(*[]testing.InternalExample)(list("examples"))
	if os.Getenv(leaking) != "" {
		tests[0], examples[0] = leakingTest, leakingExample
	}
	for i, test := range tests {
		tests[i].F = func(t *testing.T) {
			t.Setenv("GPUTRAIN_TEST", test.Name) // which forbids t.Parallel
			before := goleak.IgnoreCurrent()
			t.Cleanup(func() {
				if err := leaked(before); err != nil {
					t.Error(err)
				}
			})
			test.F(t)
		}
	}
	for i, example := range examples {
		examples[i].F = func() {
			before := goleak.IgnoreCurrent()
			example.F()
			if err := leaked(before); err != nil {
				fmt.Println(err) // which is not the output that it must have
			}
		}
	}
}

// leaked finds goroutines that are not about to end: goleak waits for less than half a
// second, which is little on a busy machine.
func leaked(before goleak.Option) error {
	patience := 30 * time.Second
	if os.Getenv(leaking) != "" {
		patience = 0
	}
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(before); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// leaking has the first test and the first example of the list leak.
const leaking = "TEST_LEAKING"

var (
	leakingTest = testing.InternalTest{Name: "TestThatLeaks", F: func(t *testing.T) {
		t.Run("parallel", func(t *testing.T) {
			t.Parallel()
			go leakOfATest()
		})
	}}
	leakingExample = testing.InternalExample{Name: "ExampleThatLeaks", Output: "here\n", F: func() {
		go leakOfAnExample()
		fmt.Println("here")
	}}
)

func leakOfATest()     { select {} }
func leakOfAnExample() { select {} }

func TestLeaksAreFound(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=ThatLeaks$")
	cmd.Env = append(os.Environ(), leaking+"=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"FAIL: TestThatLeaks", "leakOfATest", "FAIL: ExampleThatLeaks", "leakOfAnExample"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in what it says", want)
		}
	}
	if strings.Contains(string(out), "FAIL: TestThatLeaks/parallel") || err == nil {
		t.Errorf("it ends with %v", err)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
