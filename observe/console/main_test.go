package console

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// childVariable has the test binary be a program with a View, which tests end in one way or another.
const childVariable = "GPUTRAIN_CONSOLE_TEST_CHILD"

func TestMain(m *testing.M) {
	gputrain.Init()
	if how := os.Getenv(childVariable); how != "" {
		child(how)
	}
	os.Exit(m.Run())
}

// child shows a run, prints lines, and then waits, or ends as it is told.
func child(how string) {
	src := newFake(usual())
	v := show(src, os.Stderr, os.Getenv)
	defer v.Close()
	for i := range 30 {
		fmt.Fprintln(os.Stderr, "line", i)
	}
	time.Sleep(2 * frameTime)
	switch how {
	case "panic":
		defer fmt.Fprintln(os.Stderr, "panicking")
		panic("the program's own")
	case "exit":
		os.Exit(3)
	case "close":
		v.Close()
		fmt.Fprintln(os.Stderr, strings.Repeat("after ", 3))
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "stays here")
	time.Sleep(time.Minute)
	os.Exit(4)
}
