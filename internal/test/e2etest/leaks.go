package e2etest

import (
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
)

// EachLooksForLeaks makes every test and example of a package fail if a goroutine that it started outlives it, its
// parallel subtests and its cleanups. It changes the lists that package testing runs, so that no test can omit the
// check. It panics if testing no longer has these lists.
//
// If two tests ran at the same time, the owner of a goroutine would be unknown. So a test with t.Parallel panics. Its
// subtests may run in parallel with each other.
func EachLooksForLeaks(m *testing.M) {
	list := func(name string) unsafe.Pointer {
		return unsafe.Pointer(reflect.ValueOf(m).Elem().FieldByName(name).UnsafeAddr())
	}
	tests := *(*[]testing.InternalTest)(list("tests"))
	examples := *(*[]testing.InternalExample)(list("examples"))
	if os.Getenv(Leaking) != "" {
		tests[0], examples[0] = leakingTest, leakingExample
	}
	for i, test := range tests {
		tests[i].F = func(t *testing.T) {
			t.Setenv("GPUTRAIN_TEST", test.Name) // forbids t.Parallel
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
				fmt.Println(err) // makes the example's output wrong
			}
		}
	}
}

// leaked finds goroutines that do not end. goleak alone waits for less than half a second, which is too short on a busy
// machine.
func leaked(before goleak.Option) error {
	patience := 30 * time.Second
	if os.Getenv(Leaking) != "" {
		patience = 0
	}
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(before); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Leaking is an environment variable that makes the first test and the first example of the lists leak.
const Leaking = "TEST_LEAKING"

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

func leakOfATest() { select {} }

func leakOfAnExample() { select {} }
